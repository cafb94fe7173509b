import type { Scope } from '../common/scopes.js';

/** What an operator may do, and until when. */
export interface Rights {
  readonly scopes: readonly Scope[];
  readonly expiresAt: Date | null;
}

/** An operator would manage, or make, one that has more rights than itself. */
export class RightsExceededError extends Error {
  override readonly name = 'RightsExceededError';
}

/**
 * Against escalation: without the bound of the expiry, an operator for one day could make itself one for ever.
 * @param own undefined for the root key, which may give any
 * @throws {RightsExceededError} for a scope that the caller lacks, and for a later expiry than its own
 */
export function refuseMoreRights(own: Rights | undefined, given: Rights): void {
  if (!own) return;
  const hasEveryScope = given.scopes.every((scope) => own.scopes.includes(scope));
  const endsInTime = own.expiresAt === null || (given.expiresAt !== null && given.expiresAt <= own.expiresAt);
  if (!hasEveryScope || !endsInTime) throw new RightsExceededError();
}
