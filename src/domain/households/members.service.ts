/**
 * The members of a household: roles, removals, and members who leave. Invariant: when a call that ended a membership or
 * lowered a role has answered, no verifier accepts the former membership or role. A refused call waits too, because an
 * earlier call may have done it.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import { Database } from '../../foundation/database/database.js';
import { cutPage, type Page, type PageRequest } from '../../foundation/database/page.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { Departures } from './departures.js';
import { HouseholdActions, readRole, requireProof, type Caller, type LockedHousehold } from './household-actions.js';
import { toHouseholdEvent } from './household-audit-events.js';

export const MAX_MEMBERS = 100;
const MAX_HOUSEHOLDS_OF_USER = 32;
/**
 * Limits operators too, because each answer about an access token lists all households of its user, and a header of 100
 * ids still fits into the buffer of a gateway (4 KB at nginx).
 */
export const MAX_HOUSEHOLDS_BY_OPERATOR = 100;

export interface Member {
  readonly id: string;
  readonly email: string;
  readonly isActive: boolean;
  readonly role: HouseholdRole;
  readonly since: Date;
}

const SELECT = `SELECT user_id AS id, email, is_active AS "isActive", role, since
  FROM household_members JOIN users ON users.id = user_id WHERE household_id = $1`;
const LIST = {
  name: 'household_members_list',
  text: `${SELECT} AND ($2::uuid IS NULL OR user_id > $2) ORDER BY user_id LIMIT $3`,
};
const FIND = `${SELECT} AND user_id = $2`;
const COUNT = 'SELECT count(*)::integer AS count FROM household_members WHERE household_id = $1';
const COUNT_HOUSEHOLDS = 'SELECT count(*)::integer AS count FROM household_members WHERE user_id = $1';
const INSERT_MEMBER = `INSERT INTO household_members (household_id, user_id, role, since) VALUES ($1, $2, $3, $4)`;
const SET_ROLE = 'UPDATE household_members SET role = $3 WHERE household_id = $1 AND user_id = $2';
const REMOVE = 'DELETE FROM household_members WHERE household_id = $1 AND user_id = $2';
const EXISTS_USER = 'SELECT FROM users WHERE id = $1';

/** To be called with the household locked. @throws {ProblemException} household_full */
export async function refuseFullHousehold({ transaction, id }: LockedHousehold): Promise<void> {
  const [found] = await transaction.query<{ count: number }[]>(COUNT, [id]);
  if (found && found.count >= MAX_MEMBERS) throw new ProblemException(problems.householdFull);
}

/** To be called with the user locked. @throws {ProblemException} too_many_households */
export async function refuseTooManyHouseholds(
  transaction: EntityManager,
  userId: string,
  { byOperator }: { byOperator: boolean },
): Promise<void> {
  const [found] = await transaction.query<{ count: number }[]>(COUNT_HOUSEHOLDS, [userId]);
  if (found && found.count >= (byOperator ? MAX_HOUSEHOLDS_BY_OPERATOR : MAX_HOUSEHOLDS_OF_USER))
    throw new ProblemException(problems.tooManyHouseholds);
}

export async function insertMember(
  transaction: EntityManager,
  householdId: string,
  member: { readonly userId: string; readonly role: HouseholdRole; readonly now: Date },
): Promise<void> {
  await transaction.query(INSERT_MEMBER, [householdId, member.userId, member.role, member.now]);
}

@Injectable()
export class MembersService {
  constructor(
    private readonly database: Database,
    private readonly actions: HouseholdActions,
    private readonly departures: Departures,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
  ) {}

  /** Lists the members in the order of their ids. To be called for a household that exists. */
  async listMembers(householdId: string, { after, limit }: PageRequest): Promise<Page<Member>> {
    const rows = await this.database.rows<Member>(LIST, [householdId, after ?? null, limit + 1]);
    return cutPage(rows, limit, ({ id }) => id);
  }

  /** For an operator. @throws {ProblemException} not_found; already_member; household_full; too_many_households */
  async addMember(caller: Caller, householdId: string, userId: string, role: HouseholdRole): Promise<Member> {
    return this.actions.perform(caller, { id: householdId, needs: 'admin', userId }, async (household) => {
      const { transaction, id, now } = household;
      const isUser = (await transaction.query<unknown[]>(EXISTS_USER, [userId])).length > 0;
      if (!isUser) throw new ProblemException(problems.notFound);
      if (await readRole(transaction, id, userId)) throw new ProblemException(problems.alreadyMember);
      await refuseFullHousehold(household);
      await refuseTooManyHouseholds(transaction, userId, { byOperator: true });
      await insertMember(transaction, id, { userId, role, now });
      const details = { user_id: userId, after: { role } };
      await this.audit.record(transaction, toHouseholdEvent('household.member.added', caller.actor, id, details));
      return this.readMember(household, userId);
    });
  }

  /** @throws {ProblemException} not_found; last_admin; those of {@link HouseholdActions.perform} */
  async changeRole(caller: Caller, householdId: string, userId: string, role: HouseholdRole): Promise<Member> {
    const change = () =>
      this.actions.perform(caller, { id: householdId, needs: 'admin', userId }, async (household) => {
        const { transaction, id } = household;
        const member = await this.readMember(household, userId);
        if (member.role === role) return member;
        if (member.id !== caller.userId) requireProof(caller);
        else await this.departures.refuseLastAdmin(transaction, id, member.id);
        await transaction.query(SET_ROLE, [id, member.id, role]);
        if (role === 'member') await this.cancelCodesOf(member, household, caller);
        const details = { user_id: member.id, before: { role: member.role }, after: { role } };
        await this.audit.record(transaction, toHouseholdEvent('household.member.changed', caller.actor, id, details));
        return { ...member, role };
      });
    return this.propagation.propagateAfter(change, { waitsOnSuccess: role === 'member' });
  }

  /** Removes a member, or lets the caller leave. @throws as {@link changeRole} */
  async removeMember(caller: Caller, householdId: string, userId: string): Promise<void> {
    const isOwn = caller.userId === userId.toLowerCase();
    const asked = { id: householdId, needs: isOwn ? 'member' : 'admin', userId } as const;
    await this.propagation.propagateAfter(() =>
      this.actions.perform(caller, asked, async (household) => {
        const { transaction, id } = household;
        const member = await this.readMember(household, userId);
        if (member.role === 'admin' && isOwn) await this.departures.refuseLastAdmin(transaction, id, member.id);
        if (member.role === 'admin' && !isOwn) requireProof(caller);
        await transaction.query(REMOVE, [id, member.id]);
        await this.cancelCodesOf(member, household, caller);
        const details = { user_id: member.id, before: { role: member.role } };
        const event = isOwn ? 'household.member.left' : 'household.member.removed';
        await this.audit.record(transaction, toHouseholdEvent(event, caller.actor, id, details));
      }),
    );
  }

  private async cancelCodesOf(member: Member, { transaction, id }: LockedHousehold, { actor }: Caller): Promise<void> {
    await this.departures.cancelCodes(transaction, { householdId: id, issuedBy: member.id }, actor);
  }

  private async readMember({ transaction, id }: LockedHousehold, userId: string): Promise<Member> {
    const [member] = isId(userId) ? await transaction.query<Member[]>(FIND, [id, userId]) : [];
    if (!member) throw new ProblemException(problems.notFound);
    return member;
  }
}
