import type { LoggerService } from '@nestjs/common';
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

/** Takes what Nest itself logs: fixed texts, which go to the console and are never shipped to the logging service. */
export class NestLogger implements LoggerService {
  private readonly console: Logger;

  constructor(environment: Environment) {
    this.console = createConsole(environment);
  }

  log(message: unknown): void {
    if (this.console.isLevelEnabled('debug')) this.print('info', message);
  }

  warn(message: unknown): void {
    this.print('warn', message);
  }

  error(message: unknown): void {
    this.print('error', message);
  }

  private print(level: 'info' | 'warn' | 'error', message: unknown): void {
    this.console[level]({ time: new Date().toISOString() }, String(message));
  }
}
