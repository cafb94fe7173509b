import type { FieldError, Problem } from './problem.js';
import type { LogFields } from '../logging/log-line.js';
import type { RefusalEventName, RefusalReason } from '../common/refusal-reasons.js';

interface RefusalOf<Event extends RefusalEventName> {
  readonly event: Event;
  readonly reason: RefusalReason<Event>;
  readonly fields?: Readonly<Record<string, string | undefined>>;
  /** Number of refusals that this event stands for, when not every one is logged. */
  readonly count?: number;
}

/** Why a request was refused: logged as a security event (ASVS 16.3), never sent to the caller. */
export type RefusalEvent = { [Event in RefusalEventName]: RefusalOf<Event> }[RefusalEventName];

/** Ends a request with a problem of the catalogue. The name follows Nest's exceptions. */
export class ProblemException extends Error {
  readonly errors: readonly FieldError[] | undefined;
  readonly refusal: RefusalEvent | undefined;
  /** False for most refusals of a flood, and for a mistake that is logged once. The metrics count every one. */
  readonly isLogged: boolean;
  /** Further headers of the response. */
  readonly headers: Readonly<Record<string, string>>;
  /** Further members of the body, of this occurrence (RFC 9457 §3.2). */
  readonly members: object;
  /** Of a 503 that lasts until an operator acts: further fields of its log line, which is an error. */
  readonly fault: LogFields | undefined;

  constructor(
    readonly problem: Problem,
    options: {
      errors?: readonly FieldError[];
      refusal?: RefusalEvent;
      isLogged?: boolean;
      headers?: Readonly<Record<string, string>>;
      members?: object;
      fault?: LogFields;
      cause?: unknown;
    } = {},
  ) {
    super(problem.code, { cause: options.cause });
    this.errors = options.errors;
    this.refusal = options.refusal;
    this.isLogged = options.isLogged ?? true;
    this.headers = options.headers ?? {};
    this.members = options.members ?? {};
    this.fault = options.fault;
  }

  /** @returns the same with further headers of the response */
  withHeaders(headers: Readonly<Record<string, string>>): ProblemException {
    const { problem, refusal, isLogged, members, fault, cause, errors } = this;
    const all = { ...this.headers, ...headers };
    const given = { ...(refusal && { refusal }), ...(errors && { errors }), ...(fault && { fault }) };
    return new ProblemException(problem, { ...given, isLogged, members, cause, headers: all });
  }
}
