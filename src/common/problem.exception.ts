import type { FieldError, Problem } from './problems.js';
import type { SecurityEvent } from './security-event.js';

/** The private side of a refusal: logged as a security event (ASVS 16.3), never sent. */
export interface RefusalEvent {
  readonly event: SecurityEvent;
  readonly reason: string;
  readonly fields?: Readonly<Record<string, string | undefined>>;
  /** How many refusals this one stands for, when not each is logged. */
  readonly count?: number;
}

/** Ends a request with a problem of the catalogue. */
export class ProblemException extends Error {
  readonly errors: readonly FieldError[] | undefined;
  readonly refusal: RefusalEvent | undefined;
  /** False for most of a flood, which must not fill the log. It is counted in the metrics all the same. */
  readonly isLogged: boolean;
  /** Sent with the answer. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    readonly problem: Problem,
    options: {
      errors?: readonly FieldError[];
      refusal?: RefusalEvent;
      isLogged?: boolean;
      headers?: Readonly<Record<string, string>>;
      cause?: unknown;
    } = {},
  ) {
    super(problem.code, { cause: options.cause });
    this.errors = options.errors;
    this.refusal = options.refusal;
    this.isLogged = options.isLogged ?? true;
    this.headers = options.headers ?? {};
  }
}
