export type Door = 'app' | 'node' | 'user';

/** A service of the platform that calls this one. */
export interface AppPrincipal {
  readonly door: 'app';
  readonly appId: string;
  /** The calling service. */
  readonly caller: string;
  /** This service. */
  readonly target: string;
  /** The scopes of the key; absent when the key is not restricted. */
  readonly scopes?: readonly string[];
}

/** A node of a household. */
export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
}

export type HouseholdRole = 'admin' | 'member';

/** A household of a user. */
export interface Membership {
  readonly id: string;
  readonly role: HouseholdRole;
}

/** A user with an own access token of a live session. */
export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  readonly email: string;
  /** How the user logged in (RFC 8176), with `mfa` for more than one factor. Empty when the service states nothing. */
  readonly amr: readonly string[];
  /** Where the user lives. Absent when the service is an older one that does not know: that is not the same as none. */
  readonly households?: readonly Membership[];
  /** No service calls on behalf of the user. */
  readonly caller: null;
}

/** A service that passed the user on, and the pair that allowed it. */
export interface DelegationLink {
  readonly service: string;
  readonly appId: string;
}

/** A user on whose behalf a service calls, with a token for this service alone. Told from {@link UserPrincipal} by `caller`. */
export interface DelegatedUserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  /** How the user logged in. */
  readonly amr: readonly string[];
  /** The service that calls. */
  readonly caller: string;
  /** What the caller may do for the user. */
  readonly scopes: readonly string[];
  /** Every service that passed the user on: the caller first. */
  readonly chain: readonly DelegationLink[];
}

export type AnyUserPrincipal = UserPrincipal | DelegatedUserPrincipal;

export interface Principals {
  readonly app: AppPrincipal;
  readonly node: NodePrincipal;
  readonly user: UserPrincipal;
  /** Found at the door `user`, by a route that accepts it. */
  readonly delegated: DelegatedUserPrincipal;
}

/** The principal of one of these doors, told apart by `door`. */
export type Principal<Doors extends Door = Door> = Principals[Doors];

export function hasScope({ scopes }: AppPrincipal, scope: string): boolean {
  return scopes === undefined || scopes.includes(scope);
}
