/** Creates, lists, renames and deletes households. members.service.ts has their members. */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { DataSource, type EntityManager, type Repository } from 'typeorm';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { AuditLog } from '../audit/audit-log.js';
import { createId, isId } from '../../foundation/common/ids.js';
import { ANY_GIVEN_ID, Database, DatabaseClock } from '../../foundation/database/database.js';
import { cutPage, findPage, toFilter, toPattern, type Page, type PageRequest } from '../../foundation/database/page.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { isLiveAt } from '../keys/key-record.js';
import type { Node } from '../nodes/node.entity.js';
import { NodesService } from '../nodes/nodes.service.js';
import { Propagation } from '../revocation/propagation.js';
import { Departures } from './departures.js';
import {
  HouseholdActions,
  requireProof,
  type Caller,
  type LockedHousehold,
  type MemberCaller,
} from './household-actions.js';
import { toHouseholdEvent } from './household-audit-events.js';
import { Household } from './household.entity.js';

const MAX_HOUSEHOLDS_OF_USER = 32;
/**
 * Limits operators too, because each answer about an access token lists all households of its user, and a header of 100
 * ids still fits into the buffer of a gateway (4 KB at nginx).
 */
const MAX_HOUSEHOLDS = 100;

/** A household as one of its members sees it. */
export interface OwnHousehold extends Household {
  readonly role: HouseholdRole;
}

/** A household as an operator sees it. */
export interface CountedHousehold extends Household {
  readonly members: number;
  readonly activeAdmins: number;
}

export interface HouseholdFilter {
  /** A part of the name, case-insensitive. */
  readonly search: string | undefined;
  readonly memberId: string | undefined;
  /** Only households with members, of whom none is an active admin. */
  readonly isWithoutAdmin: boolean;
  readonly isWithoutMembers: boolean;
}

const SELECT_OWN = `SELECT id, name, created_at AS "createdAt", updated_at AS "updatedAt", role
  FROM household_members JOIN households ON households.id = household_id`;
const FIND_OWN = { name: 'households_find_own', text: `${SELECT_OWN} WHERE user_id = $1 AND household_id = $2` };
const LIST_OWN = {
  name: 'households_list_own',
  text: `${SELECT_OWN} WHERE user_id = $1 AND ($2::uuid IS NULL OR household_id > $2) ORDER BY household_id LIMIT $3`,
};
const COUNT_MEMBERS = {
  name: 'households_count_members',
  text: `SELECT household_id AS id, count(*)::integer AS members,
      (count(*) FILTER (WHERE role = 'admin' AND is_active))::integer AS "activeAdmins"
    FROM household_members JOIN users ON users.id = user_id WHERE household_id = ${ANY_GIVEN_ID} GROUP BY household_id`,
};
const COUNT_HOUSEHOLDS = 'SELECT count(*)::integer AS count FROM household_members WHERE user_id = $1';
const INSERT_MEMBER = `INSERT INTO household_members (household_id, user_id, role, since) VALUES ($1, $2, $3, $4)`;
const REMOVE_MEMBERS = `WITH removed AS (DELETE FROM household_members WHERE household_id = $1 RETURNING user_id, role)
  SELECT user_id AS "userId", role FROM removed ORDER BY user_id`;
const READ_LIVE_NODES = `SELECT id FROM nodes WHERE household_id = $1 AND ${isLiveAt('$2')} ORDER BY id FOR UPDATE`;
/**
 * The households that have no membership of an admin, with or without members. Both sides of the first join name their
 * order, so that PostgreSQL merges two indexes instead of hashing them; `LIMIT` keeps it from reading all members.
 */
const selectWithoutAdminRole = (
  member: 'IS NULL' | 'IS NOT NULL',
): string => `SELECT id FROM (SELECT id FROM households ORDER BY id) AS household
  LEFT JOIN (SELECT household_id FROM household_members WHERE role = 'admin' ORDER BY household_id) AS admin
    ON admin.household_id = id
  LEFT JOIN LATERAL (SELECT household_id FROM household_members WHERE household_id = id LIMIT 1) AS member ON true
  WHERE admin.household_id IS NULL AND member.household_id ${member}`;
/**
 * Read once for each page, whatever its order, because it is an array. The second part begins at the disabled users,
 * because they are few.
 */
const IS_WITHOUT_ADMIN = `id = ANY (ARRAY(
  ${selectWithoutAdminRole('IS NOT NULL')}
  UNION SELECT household_id FROM household_members AS member JOIN users ON users.id = user_id
    WHERE role = 'admin' AND NOT is_active
      AND NOT EXISTS (SELECT FROM household_members JOIN users ON users.id = user_id
        WHERE household_id = member.household_id AND role = 'admin' AND is_active)))`;
/** A household without members has no admin either, and the index of admins leaves few households to look at. */
const IS_WITHOUT_MEMBERS = `id = ANY (ARRAY(${selectWithoutAdminRole('IS NULL')}))`;

/** To be called with the user locked. @throws {ProblemException} too_many_households */
export async function refuseTooManyHouseholds(
  transaction: EntityManager,
  userId: string,
  { byOperator }: { byOperator: boolean },
): Promise<void> {
  const [found] = await transaction.query<{ count: number }[]>(COUNT_HOUSEHOLDS, [userId]);
  if (found && found.count >= (byOperator ? MAX_HOUSEHOLDS : MAX_HOUSEHOLDS_OF_USER))
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
export class HouseholdsService {
  constructor(
    @InjectRepository(Household) private readonly households: Repository<Household>,
    private readonly database: Database,
    private readonly actions: HouseholdActions,
    private readonly departures: Departures,
    private readonly nodes: NodesService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: DatabaseClock,
    private readonly dataSource: DataSource,
  ) {}

  /** The caller becomes its admin. @throws {ProblemException} too_many_households; too_many_requests */
  async createHousehold(caller: MemberCaller, name: string): Promise<OwnHousehold> {
    await this.actions.countAction(caller);
    const { userId, actor } = caller;
    return this.dataSource.transaction(async (transaction) => {
      await this.actions.lockUsers(transaction, caller);
      await refuseTooManyHouseholds(transaction, userId, { byOperator: false });
      const now = await this.clock.now(transaction);
      const household = { id: createId(), name, createdAt: now, updatedAt: now };
      await transaction.insert(Household, household);
      await insertMember(transaction, household.id, { userId, role: 'admin', now });
      const details = { user_id: userId, after: { name } };
      await this.audit.record(transaction, toHouseholdEvent('household.created', actor, household.id, { details }));
      return { ...household, role: 'admin' };
    });
  }

  async listOwnHouseholds(userId: string, { after, limit }: PageRequest): Promise<Page<OwnHousehold>> {
    const rows = await this.database.rows<OwnHousehold>(LIST_OWN, [userId, after ?? null, limit + 1]);
    return cutPage(rows, limit, ({ id }) => id);
  }

  /** @throws {ProblemException} not_found when the user is not a member, also for an id that is not a valid UUID */
  async findOwnHousehold(userId: string, id: string): Promise<OwnHousehold> {
    const household = isId(id) ? await this.database.row<OwnHousehold>(FIND_OWN, [userId, id]) : undefined;
    if (!household) throw new ProblemException(problems.notFound);
    return household;
  }

  async listHouseholds(page: PageRequest, filter: HouseholdFilter): Promise<Page<CountedHousehold>> {
    const { search, memberId, isWithoutAdmin, isWithoutMembers } = filter;
    const filters = [
      ...(search === undefined ? [] : [toFilter('lower(name) LIKE lower(:search)', { search: toPattern(search) })]),
      ...(memberId === undefined
        ? []
        : [toFilter('id IN (SELECT household_id FROM household_members WHERE user_id = :memberId)', { memberId })]),
      ...(isWithoutAdmin ? [toFilter(IS_WITHOUT_ADMIN)] : []),
      ...(isWithoutMembers ? [toFilter(IS_WITHOUT_MEMBERS)] : []),
    ];
    const { items, nextCursor } = await findPage(this.households, page, {}, filters);
    return { items: await this.countMembers(items), nextCursor };
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findHousehold(id: string): Promise<CountedHousehold> {
    const household = isId(id) ? await this.households.findOneBy({ id }) : null;
    const [counted] = household ? await this.countMembers([household]) : [];
    if (!counted) throw new ProblemException(problems.notFound);
    return counted;
  }

  /** Idempotent: the same name is not recorded. */
  async renameHousehold(caller: Caller, id: string, name: string): Promise<void> {
    await this.actions.perform(caller, { id, needs: 'admin' }, async ({ transaction, now, ...household }) => {
      const event = toHouseholdEvent('household.renamed', caller.actor, household.id);
      if (!(await this.audit.recordChange(transaction, event, { name: household.name }, { name }))) return;
      await transaction.update(Household, { id: household.id }, { name, updatedAt: now });
    });
  }

  /**
   * Ends all memberships and open codes. When the call has answered, no verifier accepts one of the memberships.
   * @throws {ProblemException} household_has_nodes; those of {@link HouseholdActions.perform}
   */
  async deleteHousehold(caller: Caller, id: string, { revokesNodes }: { revokesNodes: boolean }): Promise<void> {
    const asked = { id, needs: 'admin', isDeletion: true } as const;
    await this.propagation.propagateAfter(() =>
      this.actions.perform(caller, asked, async (household) => {
        requireProof(caller);
        await this.revokeNodes(caller, household, revokesNodes);
        const { transaction, name } = household;
        await this.departures.cancelCodes(transaction, { householdId: household.id }, caller.actor);
        await this.removeMembers(caller, household);
        await transaction.delete(Household, { id: household.id });
        const event = toHouseholdEvent('household.deleted', caller.actor, household.id, {
          details: { before: { name } },
        });
        await this.audit.record(transaction, event);
      }),
    );
  }

  private async revokeNodes({ actor }: Caller, { transaction, id, now }: LockedHousehold, mayRevoke: boolean) {
    const live = await transaction.query<Pick<Node, 'id'>[]>(READ_LIVE_NODES, [id, now]);
    if (live.length > 0 && !mayRevoke) throw new ProblemException(problems.householdHasNodes);
    for (const node of live) {
      const credential = await this.nodes.keys.requireCredential(node.id, transaction);
      await this.nodes.keys.revokeWithin(transaction, credential, actor);
    }
  }

  /** Deletes each membership itself, because the cascade of the deletion would write no audit event. */
  private async removeMembers({ actor }: Caller, { transaction, id }: LockedHousehold): Promise<void> {
    const removed = await transaction.query<{ userId: string; role: HouseholdRole }[]>(REMOVE_MEMBERS, [id]);
    for (const { userId, role } of removed) {
      const details = { user_id: userId, before: { role } };
      await this.audit.record(transaction, toHouseholdEvent('household.member.removed', actor, id, { details }));
    }
  }

  private async countMembers(households: readonly Household[]): Promise<CountedHousehold[]> {
    const ids = households.map(({ id }) => id);
    const rows = await this.database.rows<{ id: string; members: number; activeAdmins: number }>(COUNT_MEMBERS, [ids]);
    const counts = new Map(rows.map((row) => [row.id, row]));
    return households.map((household) => ({ members: 0, activeAdmins: 0, ...counts.get(household.id), ...household }));
  }
}
