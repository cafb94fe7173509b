import { MissingRoleError, NotAMemberError, UnavailableError } from './errors.js';
import type { AnyUserPrincipal, Principal } from './principals.js';

/** What a framework has as a parameter of the path. A user is a member only of the id exactly as the service writes it. */
export type PresentedHousehold = string | readonly string[] | undefined;

/** What the route demands of a user besides a valid access token. */
export interface MemberDemands {
  /** The household in which the user must live. A function is called only for a valid access token. */
  readonly household: PresentedHousehold | (() => PresentedHousehold);
  /** Without a role, every member is accepted. */
  readonly role?: 'admin' | undefined;
}

/** Whether the answer about a user names the households. The one of an older service does not. */
export function knowsHouseholds(identity: Principal | AnyUserPrincipal): boolean {
  if (identity.door !== 'user') return false;
  // A delegated token never names them: it is refused without another question.
  return identity.caller !== null || identity.households !== undefined;
}

/**
 * Judges the demand by the newest answer about the user, so that an answer that was remembered for one route also serves
 * another one.
 * @throws {NotAMemberError} {MissingRoleError} {UnavailableError} when the answer does not name the households
 */
export function expectMember(identity: Principal, { household, role }: MemberDemands): void {
  if (identity.door !== 'user' || !identity.households) throw new UnavailableError();
  const id = typeof household === 'function' ? household() : household;
  // Compared exactly: a list, capitals and whatever is not a UUID equal no id of the service.
  const membership = identity.households.find((known) => known.id === id);
  if (!membership) throw new NotAMemberError();
  if (role !== undefined && membership.role !== role) throw new MissingRoleError(role);
}
