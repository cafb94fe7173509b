import type { Request } from 'express';

/** Who came through a door (contract of the four doors). */
export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
}

export interface AppPrincipal {
  readonly door: 'app';
  readonly appId: string;
  readonly caller: string;
  readonly target: string;
}

export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
  /** The app that forwarded the node's credential with a valid one of its own. */
  readonly forwardedBy: string | null;
}

export interface AdminPrincipal {
  readonly door: 'admin';
}

export type Principal = UserPrincipal | AppPrincipal | NodePrincipal | AdminPrincipal;
export type Door = Principal['door'];

/**
 * Whom the route's door let in. Not a parameter decorator: Nest sends what those return through the validation pipe at
 * each request.
 * @param doors the ones that the route declares
 */
export function principalOf<D extends Door>({ user }: Request, ...doors: D[]): Extract<Principal, { door: D }> {
  const principal = user as Extract<Principal, { door: D }> | undefined;
  if (!principal || !doors.includes(principal.door)) throw new Error('None of these doors let the request in');
  return principal;
}
