export type Door = 'app' | 'node' | 'user';

/** A service of the platform that calls this one. */
export interface AppPrincipal {
  readonly door: 'app';
  readonly appId: string;
  /** The calling service. */
  readonly caller: string;
  /** This service. */
  readonly target: string;
}

/** A node of a household. */
export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
}

/** A user, by an access token of a live session. */
export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  readonly email: string;
  /** How the user logged in (RFC 8176): `mfa` when with more than one factor. Empty when the service does not tell. */
  readonly amr: readonly string[];
}

export type Principal = AppPrincipal | NodePrincipal | UserPrincipal;

/**
 * The principal as the adapters attach it to a request: it has the fields of the door that the route requires, and no
 * others.
 */
export interface RequestAuth
  extends Omit<AppPrincipal, 'door'>, Omit<NodePrincipal, 'door'>, Omit<UserPrincipal, 'door'> {
  readonly door: Door;
}
