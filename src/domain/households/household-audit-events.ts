import type { Actor } from '../../foundation/access/actor.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import type { AuditEvent } from '../audit/audit-events.js';

/** The subject is the household; `user_id` of the details is the user whom the action concerns. */
export function toHouseholdEvent(
  event: Extract<AuditEventName, `household.${string}`>,
  actor: Actor,
  householdId: string,
  details: AuditEvent['details'] = {},
): AuditEvent {
  const logFields = { household_id: householdId, ...('user_id' in details && { user_id: String(details.user_id) }) };
  return { event, actor, subject: householdId, details, logFields };
}
