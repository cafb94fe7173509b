/**
 * Households: reading and searching. household-lifecycle.ts creates, renames and deletes them, members.service.ts has
 * their members.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { isId } from '../../foundation/common/ids.js';
import { ANY_GIVEN_ID, Database } from '../../foundation/database/database.js';
import { cutPage, findPage, toFilter, toPattern, type Page, type PageRequest } from '../../foundation/database/page.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Household } from './household.entity.js';

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

@Injectable()
export class HouseholdsService {
  constructor(
    @InjectRepository(Household) private readonly households: Repository<Household>,
    private readonly database: Database,
  ) {}

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

  private async countMembers(households: readonly Household[]): Promise<CountedHousehold[]> {
    const ids = households.map(({ id }) => id);
    const rows = await this.database.rows<{ id: string; members: number; activeAdmins: number }>(COUNT_MEMBERS, [ids]);
    const counts = new Map(rows.map((row) => [row.id, row]));
    return households.map((household) => ({ members: 0, activeAdmins: 0, ...counts.get(household.id), ...household }));
  }
}
