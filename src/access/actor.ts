/**
 * Who performs an audited act, and in which request. `open`: a caller without a credential. `cli`: the operator's command
 * line. `service`: this service by itself.
 */
export interface Actor {
  readonly door: 'user' | 'app' | 'node' | 'admin' | 'open' | 'cli' | 'service';
  /** Null for the root key, ADMIN_API_KEY. */
  readonly id: string | null;
  /** The name of the operator whose key was used at the admin door. */
  readonly operator?: string | undefined;
  readonly requestId: string | null;
  /** The `X-Request-Id` that the caller sent, for correlation only. */
  readonly callerRequestId?: string | undefined;
  readonly address: string | null;
  /** For the list of sessions. It is neither logged nor audited. */
  readonly userAgent?: string | undefined;
}

/** The operator's command line, which works on the database. */
export const COMMAND_LINE: Actor = { door: 'cli', id: null, requestId: null, address: null };

/** @returns the name of an actor of the admin door, for people and for the labels of metrics */
export function describeAdmin(operator: string | null | undefined): string {
  return operator == null ? 'admin' : `operator:${operator}`;
}

/** The same request, now that the caller is known to be this user. */
export function toUserActor(actor: Actor, userId: string): Actor {
  return { ...actor, door: 'user', id: userId };
}
