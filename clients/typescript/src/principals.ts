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

/** A user with an access token of a live session. */
export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  readonly email: string;
  /** How the user logged in (RFC 8176), with `mfa` for more than one factor. Empty when the service states nothing. */
  readonly amr: readonly string[];
  /** Where the user lives. Absent when the service is an older one that does not know: that is not the same as none. */
  readonly households?: readonly Membership[];
}

export interface Principals {
  readonly app: AppPrincipal;
  readonly node: NodePrincipal;
  readonly user: UserPrincipal;
}

/** The principal of one of these doors, told apart by `door`. */
export type Principal<Doors extends Door = Door> = Principals[Doors];

export function hasScope({ scopes }: AppPrincipal, scope: string): boolean {
  return scopes === undefined || scopes.includes(scope);
}
