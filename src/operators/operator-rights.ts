import type { OperatorIdentity } from '../access/principals.js';
import type { CountedRefusal } from '../audit/counted-refusals.js';
import type { RefusalReason } from '../common/security-events.js';
import type { Scope } from '../common/names.js';
import { problems } from '../problems/problems.js';

export interface Rights {
  readonly scopes: readonly Scope[];
  readonly expiresAt: Date | null;
}

/** The operator would register or change one that has more rights than itself. */
export class RightsExceededError extends Error {
  override readonly name = 'RightsExceededError';
}

/** The caller has lost the scope of the route since the door accepted its key. */
export class ScopeLostError extends Error {
  override readonly name = 'ScopeLostError';
}

/**
 * Against escalation. Without the bound of the expiry, an operator for one day could register one that never expires.
 * @param own undefined for the root key, which may give any rights
 * @throws {RightsExceededError} for a scope that the caller lacks, and for a later expiry than its own
 */
export function refuseMoreRights(own: Rights | undefined, given: Rights): void {
  if (!own) return;
  const hasEveryScope = given.scopes.every((scope) => own.scopes.includes(scope));
  const endsInTime = own.expiresAt === null || (given.expiresAt !== null && given.expiresAt <= own.expiresAt);
  if (!hasEveryScope || !endsInTime) throw new RightsExceededError();
}

/**
 * @param scope of the route
 * @param accepted of which the operator needs one
 */
export function describeMissingScope(
  operator: OperatorIdentity,
  scope: Scope,
  accepted: readonly Scope[] = [scope],
): CountedRefusal {
  return { problem: problems.missingScope, members: { scopes: accepted }, ...describeRefusal(operator, scope) };
}

export function describeExceededRights(operator: OperatorIdentity): CountedRefusal {
  return { problem: problems.exceedsOwnRights, ...describeRefusal(operator, 'grant') };
}

/** One audit row for each operator and window. */
function describeRefusal({ id, name }: OperatorIdentity, reason: RefusalReason<'admin.scope.refused'>) {
  const fields = { operator_id: id, operator: name };
  return { refusal: { event: 'admin.scope.refused', reason, fields }, counted: `operator ${id}`, subject: id } as const;
}
