import { Injectable, type LoggerService, type OnApplicationShutdown } from '@nestjs/common';
import type { Request } from 'express';
import { pino, type Logger } from 'pino';
import { Environment } from '../config/environment.js';
import type { LogFields, LogLevel, LogLine } from './log-line.js';
import { LogShipper } from './log-shipper.js';
import { pinoPretty } from './pretty.js';

interface Route {
  readonly path?: unknown;
}

/**
 * The structured log of the service. Lines go to the logging service while it takes them, and to the console
 * otherwise: one JSON object a line, readable text in development.
 */
@Injectable()
export class Log implements LoggerService, OnApplicationShutdown {
  private readonly console: Logger;
  private readonly shipper: LogShipper | undefined;
  private readonly loggingAppId: string | undefined;
  private undelivered = 0;

  constructor(environment: Environment) {
    const options = { level: environment.logLevel, base: { service: 'platform-auth' }, timestamp: false };
    this.console = environment.nodeEnv === 'development' ? pino(options, pinoPretty()) : pino(options);
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
          ? this.onConsole('info', 'logging_service_delivers')
          : this.onConsole('warn', 'logging_service_unusable'),
    });
  }

  /** Undefined when no logging service is configured. */
  get isDelivering(): boolean | undefined {
    return this.shipper?.isDelivering;
  }

  /** Lines that wait for delivery. */
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

  warning(message: string, fields: LogFields = {}): void {
    this.write('warn', message, fields);
  }

  failure(message: string, fields: LogFields = {}): void {
    this.write('error', message, fields);
  }

  /**
   * A line about a request. The logging service has the credential of our deliveries validated here; a shipped line
   * about that would be the reason for the next delivery, for ever: it stays on the console.
   */
  about(request: Request, level: LogLevel, message: string, fields: LogFields): void {
    if (this.isOwnDelivery(request)) this.onConsole(level, message, fields);
    else this.write(level, message, fields);
  }

  // What Nest itself has to say, below: fixed texts of its own, for whoever watches the console.
  log(message: unknown): void {
    if (this.console.isLevelEnabled('debug')) this.onConsole('info', String(message));
  }

  error(message: unknown): void {
    this.onConsole('error', String(message));
  }

  warn(message: unknown): void {
    this.onConsole('warn', String(message));
  }

  /** Delivers what is waiting, while this service can still validate its own deliveries. */
  async flush(): Promise<void> {
    await this.shipper?.flush();
  }

  /** From here on the console has every line, also those that still wait: the process is about to end. */
  abandonDelivery(): void {
    this.shipper?.abandon();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.shipper?.stop();
  }

  protected write(level: LogLevel, message: string, fields: LogFields): void {
    if (!this.console.isLevelEnabled(level)) return;
    const line = lineOf(level, message, fields);
    if (!this.shipper) this.print(line);
    else if (!this.shipper.take(line)) this.printUndelivered(line);
  }

  /** Whether the logging service asks about the credential of our own delivery, also at a path that leads nowhere. */
  isOwnDelivery({ route, headers }: Request): boolean {
    if (this.loggingAppId === undefined) return false;
    const path = (route as Route | undefined)?.path;
    if (path !== undefined && path !== '/internal/validate-app') return false;
    return String(headers['x-platform-app-id']).toLowerCase() === this.loggingAppId;
  }

  private onConsole(level: LogLevel, message: string, fields: LogFields = {}): void {
    this.print(lineOf(level, message, fields));
  }

  private printUndelivered(line: LogLine): void {
    this.undelivered += 1;
    this.print(line);
  }

  private print({ level, timestamp, message, context }: LogLine): void {
    this.console[level]({ time: timestamp, ...context }, message);
  }
}

function lineOf(level: LogLevel, message: string, context: LogFields): LogLine {
  return { timestamp: new Date().toISOString(), level, service: 'platform-auth', message, context };
}
