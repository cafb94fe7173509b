import { types } from 'node:util';

export type LogLevel = 'info' | 'warn' | 'error';

/** The fields of a log line. Any other field does not compile (ASVS 16.2.5). */
export interface LogFields {
  readonly event?: string | undefined;
  readonly request_id?: string | undefined;
  readonly caller_request_id?: string | undefined;
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
  readonly calling_service?: string | undefined;
  readonly called_service?: string | undefined;
  readonly node_id?: string | undefined;
  readonly operator_id?: string | undefined;
  /** The name of the operator whose key was used. */
  readonly operator?: string | undefined;
  readonly household_id?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly internal_port?: number | undefined;
  readonly count?: number | undefined;
  readonly worker_pid?: number | undefined;
  readonly exit_code?: number | undefined;
  readonly signal?: string | undefined;
  readonly delay_ms?: number | undefined;
  readonly skew_seconds?: number | undefined;
  readonly kid?: string | undefined;
  readonly month?: string | undefined;
  readonly waiting_for?: string | undefined;
  readonly waited_seconds?: number | undefined;
  readonly error?: ErrorFields | undefined;
}

/** The parts of an error that are safe to log: where it happened, without its message. */
export interface ErrorFields {
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

/** Drops the message of an error, because it may quote what a caller sent. */
export function toErrorFields(error: unknown): ErrorFields {
  if (!types.isNativeError(error)) return { name: typeof error };
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at '));
  return { name: error.name, code: findCode(error), stack: frames?.join('\n') };
}

/** The driver reports these without a code. Its messages hold no values. */
const DRIVER_CODES: readonly [message: RegExp, code: string][] = [
  [/^Query read timeout/, 'STATEMENT_TIMEOUT'],
  [/^timeout exceeded when trying to connect/, 'POOL_TIMEOUT'],
  [/^(timeout expired|Connection terminated due to connection timeout)/, 'CONNECT_TIMEOUT'],
  [/^Connection terminated/, 'CONNECTION_TERMINATED'],
];
const MAX_CAUSES = 5;

/** @returns the SQLSTATE of PostgreSQL or the code of Node.js, which holds no values, also that of the cause */
function findCode(error: unknown, depth = 0): string | undefined {
  if (!types.isNativeError(error) || depth > MAX_CAUSES) return undefined;
  const { code, cause, errors } = error as Error & { code?: unknown; errors?: unknown };
  if (typeof code === 'string') return code;
  const ofDriver = DRIVER_CODES.find(([message]) => message.test(error.message))?.[1];
  // A host with several addresses fails with one error for each.
  return ofDriver ?? findCode(Array.isArray(errors) ? errors[0] : cause, depth + 1);
}
