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

/** What an occurrence of a problem adds to the entry of the catalogue. */
export interface Occurrence {
  readonly errors?: readonly FieldError[];
  readonly refusal?: RefusalEvent;
  /** False for most refusals of a flood, and for a mistake that is logged once. The metrics count every one. */
  readonly isLogged?: boolean;
  /** Further headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further members of the body, of this occurrence (RFC 9457 §3.2). */
  readonly members?: object;
  /** Of a 503 that lasts until an operator acts: further fields of its log line, which is an error. */
  readonly fault?: LogFields;
  readonly cause?: unknown;
}

/** Ends a request with a problem of the catalogue. The name follows Nest's exceptions. */
export class ProblemException extends Error {
  constructor(
    readonly problem: Problem,
    readonly occurrence: Occurrence = {},
  ) {
    super(problem.code, { cause: occurrence.cause });
  }

  /** @returns the same with further headers of the response */
  withHeaders(headers: Readonly<Record<string, string>>): ProblemException {
    const { problem, occurrence } = this;
    return new ProblemException(problem, { ...occurrence, headers: { ...occurrence.headers, ...headers } });
  }
}
