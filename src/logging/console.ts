import { pino, type Logger } from 'pino';
import { default as pretty } from 'pino-pretty';
import type { Environment } from '../config/environment.js';

/** Creates the writer of the console: one JSON object per line; text for people in development. */
export function createConsole({ logLevel, nodeEnv }: Environment): Logger {
  const options = { level: logLevel, base: { service: 'platform-auth' }, timestamp: false };
  if (nodeEnv !== 'development') return pino(options);
  // Written at once, so that nothing is lost when the process exits.
  const layout = { sync: true, ignore: 'pid,hostname,service', singleLine: true, colorize: process.stdout.isTTY };
  return pino(options, pretty(layout));
}
