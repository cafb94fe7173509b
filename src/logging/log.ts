// Structured logs: lines of fixed names and fields, shipped to the logging service, with the console as the fallback.
// Invariants: a line contains no secret and no text of a caller, memory is bounded, and logging never delays a request.

import { Global, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import type { Request } from 'express';
import type { Logger } from 'pino';
import { Environment } from '../config/environment.js';
import { createConsole } from './console.js';
import type { LogFields, LogLevel, LogLine } from './log-line.js';
import { LogShipper } from './log-shipper.js';

interface Route {
  readonly path?: unknown;
}

/** The routes on which the logging service, or a gateway before it, has the credential of a delivery validated. */
const VALIDATIONS_OF_APPS: readonly unknown[] = ['/internal/validate-app', '/internal/authorize/app'];

@Injectable()
export class Log implements OnApplicationShutdown {
  private readonly console: Logger;
  private readonly shipper: LogShipper | undefined;
  private readonly loggingAppId: string | undefined;
  private undelivered = 0;

  constructor(environment: Environment) {
    this.console = createConsole(environment);
    const { loggingServiceUrl: url, loggingAppId: appId, loggingAppKey: appKey } = environment;
    this.loggingAppId = appId?.toLowerCase();
    if (url === undefined) return;
    this.shipper = new LogShipper({
      url,
      appId,
      appKey,
      onUndelivered: (lines) => lines.forEach((line) => this.printUndelivered(line)),
      onStateChange: (isDelivering) =>
        isDelivering
          ? this.print(createLine('info', 'logging_service_delivers'))
          : this.print(createLine('warn', 'logging_service_unusable')),
    });
  }

  /** Undefined when no logging service is configured. */
  get isDelivering(): boolean | undefined {
    return this.shipper?.isDelivering;
  }

  get waitingLines(): number {
    return this.shipper?.waitingLines ?? 0;
  }

  /** Lines that were meant for the logging service and went to the console. */
  get undeliveredLines(): number {
    return this.undelivered;
  }

  info(message: string, fields: LogFields = {}): void {
    this.write('info', message, fields);
  }

  warn(message: string, fields: LogFields = {}): void {
    this.write('warn', message, fields);
  }

  error(message: string, fields: LogFields = {}): void {
    this.write('error', message, fields);
  }

  /**
   * Logs a line about a request. The logging service validates the credential of our deliveries here: a line about such
   * a request goes to the console, because shipping it would cause the next delivery, in an endless loop.
   */
  writeAbout(request: Request, level: LogLevel, message: string, fields: LogFields): void {
    if (this.isOwnDelivery(request)) this.print(createLine(level, message, fields));
    else this.write(level, message, fields);
  }

  /** Delivers the waiting lines, while this service can still validate its own deliveries. */
  async flush(): Promise<void> {
    await this.shipper?.flush();
  }

  /** Prints the waiting lines and all later ones to the console, because the process is about to exit. */
  abandonDelivery(): void {
    this.shipper?.abandon();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.shipper?.stop();
  }

  protected write(level: LogLevel, message: string, fields: LogFields): void {
    if (!this.console.isLevelEnabled(level)) return;
    const line = createLine(level, message, fields);
    if (!this.shipper) this.print(line);
    else if (!this.shipper.enqueue(line)) this.printUndelivered(line);
  }

  /** Whether the logging service validates the credential of our own delivery, also at a path without a route. */
  isOwnDelivery({ route, headers }: Request): boolean {
    if (this.loggingAppId === undefined) return false;
    const path = (route as Route | undefined)?.path;
    if (path !== undefined && !VALIDATIONS_OF_APPS.includes(path)) return false;
    return String(headers['x-platform-app-id']).toLowerCase() === this.loggingAppId;
  }

  private printUndelivered(line: LogLine): void {
    this.undelivered += 1;
    this.print(line);
  }

  private print({ level, timestamp, message, context }: LogLine): void {
    this.console[level]({ time: timestamp, ...context }, message);
  }
}

function createLine(level: LogLevel, message: string, context: LogFields = {}): LogLine {
  return { timestamp: new Date().toISOString(), level, service: 'platform-auth', message, context };
}

@Global()
@Module({ providers: [Log], exports: [Log] })
export class LoggingModule {}
