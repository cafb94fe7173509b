/**
 * The households of a user, as a part of the answer about that user's token. Invariant: each answer reads them from
 * PostgreSQL, by a statement sent after the question arrived, and a trigger writes each change of a membership into the
 * feed as a change of its user. So the lease covers memberships as it covers sessions (docs/decisions/0054).
 */
import { Injectable } from '@nestjs/common';
import type { Membership } from '../../foundation/access/principals.js';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { ANY_GIVEN_ID, batchReads, Database } from '../../foundation/database/database.js';

/** Joined as text, because an aggregate of JSON takes PostgreSQL and this process twice as long. */
const READ = {
  name: 'household_members_read',
  text: `SELECT user_id, string_agg(household_id || ' ' || role, ',' ORDER BY household_id) AS households
         FROM household_members WHERE user_id = ${ANY_GIVEN_ID} GROUP BY user_id`,
};

@Injectable()
export class Memberships {
  private readonly read = batchReads(async (userIds: readonly string[]) => {
    const rows = await this.database.rows<{ user_id: string; households: string }>(READ, [userIds]);
    const known = new Map(rows.map(({ user_id, households }) => [user_id, readMemberships(households)]));
    return userIds.map((userId) => known.get(userId));
  });

  constructor(private readonly database: Database) {}

  /** @returns the memberships at a moment after the call, in the order of their households */
  async listMemberships(userId: string): Promise<readonly Membership[]> {
    return (await this.read(userId)) ?? [];
  }
}

function readMemberships(text: string): Membership[] {
  return text.split(',').map((each) => {
    const [id, role] = each.split(' ') as [string, HouseholdRole];
    return { id, role };
  });
}
