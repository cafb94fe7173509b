import { Injectable, type LoggerService } from '@nestjs/common';
import { pino, type Logger } from 'pino';
import { pinoPretty } from './pretty.js';
import { Environment } from '../config/environment.js';

/** What may appear in a log line beside its message. Anything else does not compile (ASVS 16.2.5). */
export interface LogFields {
  readonly event?: string | undefined;
  readonly request_id?: string | undefined;
  readonly method?: string | undefined;
  readonly route?: string | undefined;
  readonly status?: number | undefined;
  readonly duration_ms?: number | undefined;
  readonly address?: string | undefined;
  readonly door?: string | undefined;
  readonly reason?: string | undefined;
  readonly user_id?: string | undefined;
  readonly session_id?: string | undefined;
  readonly app_id?: string | undefined;
  readonly caller?: string | undefined;
  readonly target?: string | undefined;
  readonly node_id?: string | undefined;
  readonly household_id?: string | undefined;
  readonly count?: number | undefined;
  /** Name, code and stack of an error; never its message, which may quote what a caller sent. */
  readonly error?: { name: string; code?: string | undefined; stack?: string | undefined } | undefined;
}

/** The structured log of the service: one JSON object a line, readable text in development. */
@Injectable()
export class Log implements LoggerService {
  private readonly pino: Logger;

  constructor(environment: Environment) {
    const options = {
      level: environment.logLevel,
      base: { service: 'platform-auth' },
      timestamp: pino.stdTimeFunctions.isoTime,
    };
    this.pino = environment.nodeEnv === 'development' ? pino(options, pinoPretty()) : pino(options);
  }

  info(message: string, fields: LogFields = {}): void {
    this.pino.info(fields, message);
  }

  warning(message: string, fields: LogFields = {}): void {
    this.pino.warn(fields, message);
  }

  failure(message: string, fields: LogFields = {}): void {
    this.pino.error(fields, message);
  }

  // What Nest itself has to say: its own fixed messages, below.
  log(message: unknown): void {
    this.pino.debug(String(message));
  }

  error(message: unknown): void {
    this.pino.error(String(message));
  }

  warn(message: unknown): void {
    this.pino.warn(String(message));
  }
}

/** The parts of an error that are safe to keep: where it happened, not what it quotes. */
export function errorFields(error: unknown): NonNullable<LogFields['error']> {
  if (!(error instanceof Error)) return { name: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at '));
  return { name: error.name, code, stack: frames?.join('\n') };
}
