import type { LoggerService } from '@nestjs/common';
import type { Logger } from 'pino';
import type { Environment } from '../config/environment.js';
import { createConsole } from './console.js';

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
