// The households of a user, as a part of the answer about that user's token. Invariant: each answer reads them from
// PostgreSQL with the session, by a statement sent after the question arrived, and a trigger writes each change of a
// membership into the feed as a change of its user. So the lease covers memberships as it covers sessions
// (docs/decisions/0054).

import type { Membership } from '../../foundation/access/principals.js';
import type { HouseholdRole } from '../../foundation/common/names.js';

/** SQL in a statement about `sessions`. Text, because JSON takes PostgreSQL and this process twice as long. */
export const MEMBERSHIPS_OF_SESSION = `SELECT string_agg(household_id || ' ' || role, ',' ORDER BY household_id)
  FROM household_members WHERE household_members.user_id = sessions.user_id`;

/**
 * @param joined what {@link MEMBERSHIPS_OF_SESSION} read; null without a household
 * @returns in the order of the households
 */
export function readMemberships(joined: string | null): Membership[] {
  if (joined === null) return [];
  return joined.split(',').map((each) => {
    const [id, role] = each.split(' ') as [string, HouseholdRole];
    return { id, role };
  });
}
