/**
 * The actor of an act, and the request. `open`: the caller presented no credential. `cli`: the operator's command line.
 * `service`: this service, of its own accord.
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

/** @returns the actor for people and labels: its door, or `operator:<name>` */
export function describeAdmin(operator: string | null | undefined): string {
  return operator == null ? 'admin' : `operator:${operator}`;
}

/** The same request, now that the caller is known to be this user. */
export function toUserActor(actor: Actor, userId: string): Actor {
  return { ...actor, door: 'user', id: userId };
}
