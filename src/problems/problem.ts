/** One kind of error response: a constant public message, the same for every caller (RFC 9457). */
export interface Problem {
  readonly status: number;
  /** Stable snake_case word that callers may branch on. */
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfterSeconds?: number;
  /** Sent as `WWW-Authenticate` (RFC 9110 §11.6.1). */
  readonly challenge?: string;
  /** Members of the body in addition to the standard ones. */
  readonly extension?: Readonly<Record<string, unknown>>;
}

/** One rejected field: a JSON Pointer (RFC 6901) into the body or the query, and what would be accepted. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** Rejected fields that a response names at most. */
export const MAX_ERRORS = 20;
