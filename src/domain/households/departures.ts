/**
 * Departures of members: a user who leaves, is removed, loses the role admin, or whose account is deleted. Invariant: the
 * open invitations and enrolments that the user issued are cancelled in the same transaction (docs/decisions/0054).
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { isOpenAt } from '../keys/one-time-codes.js';
import { EnrolmentsService, type CodeSelection } from '../nodes/enrolments.service.js';
import { toHouseholdEvent } from './household-audit-events.js';

const LOCK_HOUSEHOLDS = `SELECT id FROM households
  WHERE id IN (SELECT household_id FROM household_members WHERE user_id = $1) ORDER BY id FOR NO KEY UPDATE`;
const LOCK_USER = 'SELECT id FROM users WHERE id = $1 FOR UPDATE';
const READ_MEMBERSHIPS =
  'SELECT household_id AS id, role FROM household_members WHERE user_id = $1 ORDER BY household_id';
const DELETE_MEMBERSHIPS = 'DELETE FROM household_members WHERE user_id = $1';
const COUNT_OTHERS = `SELECT count(*)::integer AS others,
    (count(*) FILTER (WHERE role = 'admin' AND is_active))::integer AS admins
  FROM household_members JOIN users ON users.id = user_id WHERE household_id = $1 AND user_id <> $2`;
const CANCEL_INVITATIONS = `UPDATE household_invitations SET cancelled_at = $1
  WHERE ($2::uuid IS NULL OR household_id = $2) AND ($3::uuid IS NULL OR issued_by = $3) AND ${isOpenAt('$1')}
  RETURNING id, household_id`;

interface EndedMembership {
  readonly id: string;
  readonly role: HouseholdRole;
}

@Injectable()
export class Departures {
  constructor(
    private readonly dataSource: DataSource,
    private readonly enrolments: EnrolmentsService,
    private readonly audit: AuditLog,
    private readonly clock: DatabaseClock,
  ) {}

  /** Cancels the open invitations and enrolments of a household, or of an admin who issued them. */
  async cancelCodes(transaction: EntityManager, selection: CodeSelection, actor: Actor): Promise<void> {
    const values = [await this.clock.now(transaction), selection.householdId ?? null, selection.issuedBy ?? null];
    const [cancelled] = await transaction.query<[{ id: string; household_id: string }[], number]>(
      CANCEL_INVITATIONS,
      values,
    );
    for (const { id, household_id } of cancelled)
      await this.audit.record(
        transaction,
        toHouseholdEvent('household.invitation.cancelled', actor, household_id, { invitation_id: id }),
      );
    await this.enrolments.cancelEnrolments(transaction, selection, actor);
  }

  /**
   * Runs the deletion of an account in a transaction that has locked the households of the user and then the user. Retries
   * when the user joined a household between the two locks, because a household must be locked before its users.
   * @param deletion throws for a user who does not exist
   * @throws {ProblemException} not_found for an id that is not a valid UUID
   */
  async deleteWithMemberships<Result>(
    userId: string,
    deletion: (transaction: EntityManager, memberships: readonly EndedMembership[]) => Promise<Result>,
  ): Promise<Result> {
    if (!isId(userId)) throw new ProblemException(problems.notFound);
    for (;;) {
      const done = await this.dataSource.transaction(async (transaction) => {
        const locked = await transaction.query<{ id: string }[]>(LOCK_HOUSEHOLDS, [userId]);
        await transaction.query(LOCK_USER, [userId]);
        const memberships = await transaction.query<EndedMembership[]>(READ_MEMBERSHIPS, [userId]);
        if (memberships.some(({ id }) => !locked.some((household) => household.id === id))) return undefined;
        return { result: await deletion(transaction, memberships) };
      });
      if (done) return done.result;
    }
  }

  /** Ends all memberships of a user whose account is deleted. A cascade would write no audit events. */
  async endMemberships(
    transaction: EntityManager,
    userId: string,
    memberships: readonly EndedMembership[],
    actor: Actor,
  ): Promise<void> {
    await this.cancelCodes(transaction, { issuedBy: userId }, actor);
    await transaction.query(DELETE_MEMBERSHIPS, [userId]);
    for (const { id, role } of memberships) {
      const details = { user_id: userId, before: { role } };
      await this.audit.record(transaction, toHouseholdEvent('household.member.removed', actor, id, details));
    }
  }

  /**
   * To be called with the household locked.
   * @throws {ProblemException} last_admin when the household has other members but no other admin who is not disabled
   */
  async refuseLastAdmin(transaction: EntityManager, householdId: string, userId: string): Promise<void> {
    const [counts] = await transaction.query<{ others: number; admins: number }[]>(COUNT_OTHERS, [householdId, userId]);
    if (counts && counts.others > 0 && counts.admins === 0) throw new ProblemException(problems.lastAdmin);
  }
}
