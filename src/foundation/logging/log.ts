// Structured logs: lines of fixed names and fields, shipped to the logging service, with the console as the fallback.
// Invariants: a line contains no secret and no text of a caller, memory is bounded, and logging never delays a request.

import { types } from 'node:util';
import { Injectable, type LoggerService, type OnApplicationShutdown } from '@nestjs/common';
import type { Request } from 'express';
import { pino, type Logger } from 'pino';
import { default as pretty } from 'pino-pretty';
import type { KeyKindName } from '../common/key-kinds.js';
import { redactSecrets } from '../common/redaction.js';
import { Environment } from '../config/environment.js';
import { LogShipper } from './log-shipper.js';

export type LogLevel = 'info' | 'warn' | 'error';

type RequestField = 'request_id' | 'caller_request_id' | 'method' | 'route' | 'address' | 'door' | 'operator';
type SubjectField = `${'user' | 'session' | 'household' | KeyKindName}_id`;
type ServiceField = 'calling_service' | 'called_service';
type EventField = 'event' | 'reason' | 'host' | 'signal' | 'kid' | 'month' | 'waiting_for';
type CountField = 'status' | 'count' | 'port' | 'internal_port' | 'worker_pid' | 'exit_code';
type TimeField = 'duration_ms' | 'delay_ms' | 'skew_seconds' | 'waited_seconds';
type Fields<Name extends string, Value> = { readonly [Each in Name]?: Value | undefined };

/** The fields of a log line. Any other field does not compile (ASVS 16.2.5). */
export type LogFields = Fields<RequestField | SubjectField | ServiceField | EventField, string> &
  Fields<CountField | TimeField, number> &
  Fields<'error', ErrorFields>;

/** The parts of an error that are safe to log: where it happened, without its message. */
interface ErrorFields {
  readonly name: string;
  readonly code?: string | undefined;
  readonly stack?: string | undefined;
}

/** A line in the format of the logging service. */
export interface LogLine {
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly service: 'platform-auth';
  readonly message: string;
  readonly context: LogFields;
}

/** Excludes the message of an error, because it may quote what a caller sent. */
export function toErrorFields(error: unknown): ErrorFields {
  if (!types.isNativeError(error)) return { name: typeof error };
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at '));
  return { name: error.name, code: findCode(error), stack: frames?.join('\n') };
}

/** Codes for errors that the driver reports without one. Its messages contain no values. */
const DRIVER_CODES: readonly [message: RegExp, code: string][] = [
  [/^Query read timeout/, 'STATEMENT_TIMEOUT'],
  [/^timeout exceeded when trying to connect/, 'POOL_TIMEOUT'],
  [/^(timeout expired|Connection terminated due to connection timeout)/, 'CONNECT_TIMEOUT'],
  [/^Connection terminated/, 'CONNECTION_TERMINATED'],
];
const MAX_CAUSES = 5;

/** @returns the SQLSTATE of PostgreSQL or the code of Node.js, of the error or its cause; neither contains values */
function findCode(error: unknown, depth = 0): string | undefined {
  if (!types.isNativeError(error) || depth > MAX_CAUSES) return undefined;
  const { code, cause, errors } = error as Error & { code?: unknown; errors?: unknown };
  if (typeof code === 'string') return code;
  const ofDriver = DRIVER_CODES.find(([message]) => message.test(error.message))?.[1];
  // A connection to a host with several addresses fails with one error for each.
  return ofDriver ?? findCode(Array.isArray(errors) ? errors[0] : cause, depth + 1);
}

/** Writes to the console: JSON in lines, or text for people in development. */
function createConsole({ logLevel, nodeEnv }: Environment): Logger {
  const options = { level: logLevel, base: { service: 'platform-auth' }, timestamp: false };
  if (nodeEnv !== 'development') return pino(options);
  // Synchronous, so that nothing is lost when the process exits.
  const layout = { sync: true, ignore: 'pid,hostname,service', singleLine: true, colorize: process.stdout.isTTY };
  return pino(options, pretty(layout));
}

/** Routes at which the logging service, or a gateway before it, has this service's own app credential validated. */
const VALIDATIONS_OF_APPS: readonly unknown[] = ['/internal/validate-app', '/internal/authorize/app'];

@Injectable()
export class Log implements OnApplicationShutdown {
  private readonly console: Logger;
  private readonly shipper: LogShipper<LogLine> | undefined;
  private readonly loggingAppId: string | undefined;
  undeliveredLines = 0;

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
        this.print(
          isDelivering
            ? createLine('info', 'logging_service_delivers')
            : createLine('warn', 'logging_service_unusable'),
        ),
    });
  }

  /** Undefined when no logging service is configured. */
  get isDelivering(): boolean | undefined {
    return this.shipper?.isDelivering;
  }

  get waitingLines(): number {
    return this.shipper?.waitingLines ?? 0;
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
   * Logs a line about a request. When the logging service validates the credential of our own delivery, the line goes
   * to the console: shipping it would cause the next delivery, in an endless loop.
   */
  writeAbout(request: Request, level: LogLevel, message: string, fields: LogFields): void {
    if (this.isOwnDelivery(request)) this.print(createLine(level, message, fields));
    else this.write(level, message, fields);
  }

  /** Delivers the waiting lines. Must run while this service can still validate its own deliveries. */
  async flush(): Promise<void> {
    await this.shipper?.flush();
  }

  /** Sends the waiting lines and all later ones to the console, because the process is about to exit. */
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

  /** Whether the request validates the credential of our own delivery, even at a path without a route. */
  isOwnDelivery({ route, headers }: Request): boolean {
    if (this.loggingAppId === undefined) return false;
    const path = (route as { readonly path?: unknown } | undefined)?.path;
    if (path !== undefined && !VALIDATIONS_OF_APPS.includes(path)) return false;
    return String(headers['x-platform-app-id']).toLowerCase() === this.loggingAppId;
  }

  private printUndelivered(line: LogLine): void {
    this.undeliveredLines += 1;
    this.print(line);
  }

  private print({ level, timestamp, message, context }: LogLine): void {
    this.console[level]({ time: timestamp, ...context }, message);
  }
}

function createLine(level: LogLevel, message: string, context: LogFields = {}): LogLine {
  return {
    timestamp: new Date().toISOString(),
    level,
    service: 'platform-auth',
    message,
    context: redactFields(context),
  };
}

/** A caller also chooses names of services, so they may contain a secret. */
function redactFields(context: LogFields): LogFields {
  const fields = Object.entries(context);
  const isClean = fields.every(([, value]) => typeof value !== 'string' || redactSecrets(value) === value);
  if (isClean) return context;
  return Object.fromEntries(
    fields.map(([name, value]) => [name, typeof value === 'string' ? redactSecrets(value) : value]),
  );
}

/** Logs Nest's own messages, which are fixed texts, to the console only. */
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
