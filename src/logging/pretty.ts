import { default as pretty, type PrettyStream } from 'pino-pretty';

/** Log lines for people: colours on a terminal, written at once so that nothing is lost on exit. */
export function pinoPretty(): PrettyStream {
  return pretty({ sync: true, ignore: 'pid,hostname,service', singleLine: true, colorize: process.stdout.isTTY });
}
