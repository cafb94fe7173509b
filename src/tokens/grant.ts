/** How a user authenticated at a login (RFC 8176). */
export type Amr = readonly string[];

/** An authenticated user, for whom a session is about to start. */
export interface SessionOwner {
  readonly id: string;
  readonly email: string;
  /** As it was when the password was verified. */
  readonly passwordChangedAt: Date | null;
  /** As it was when the factors were read. */
  readonly factorsChangedAt: Date | null;
}

/** A refresh token, and what the access token beside it states. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly amr: Amr;
  readonly refreshToken: string;
}
