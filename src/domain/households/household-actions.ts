/**
 * The locks and the authorization of each action on a household. An action locks the household (departures.ts several, in
 * the order of their ids), then the users that it concerns in the order of theirs, and only then reads the role of the
 * caller. Terms: caller, role, proof (the result of Reauthentication, so that a stolen access token does not suffice).
 * Invariant: no decision depends on what was read before the locks.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { isId } from '../../foundation/common/ids.js';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import { ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { createWrongPassword, type AccountState } from '../passwords/password-verifier.js';

/** The state of the account when its user reauthenticated. */
interface Proof extends Pick<AccountState, 'passwordChangedAt'> {
  /** Consumes the fresh second factor, if the account has one, in the transaction of the action. */
  readonly useProof: (transaction: EntityManager) => Promise<void>;
}

export interface Caller {
  readonly actor: Actor;
  /** Null for an operator, who needs no role and no proof. */
  readonly userId: string | null;
  readonly proof?: Proof | undefined;
}

export interface MemberCaller extends Caller {
  readonly userId: string;
}

interface RequestedAction {
  readonly id: string;
  /** Null for the action of a user who need not be a member yet. */
  readonly needs: HouseholdRole | null;
  /** Whether the action deletes the household: its lock then blocks new nodes and enrolments that name the household. */
  readonly isDeletion?: boolean;
  /** Another user whom the action concerns. */
  readonly userId?: string | undefined;
}

export interface LockedHousehold {
  readonly transaction: EntityManager;
  readonly id: string;
  readonly name: string | null;
  readonly now: Date;
}

interface LockedUser {
  readonly id: string;
  readonly isActive: boolean;
  readonly isProven: boolean;
}

const LOCK_HOUSEHOLD = 'SELECT id, name FROM households WHERE id = $1 FOR NO KEY UPDATE';
const LOCK_FOR_DELETION = 'SELECT id, name FROM households WHERE id = $1 FOR UPDATE';
/** `$2`: when the password that the caller entered again was set; null without a proof. */
const LOCK_USERS = `SELECT id, is_active AS "isActive", password_changed_at IS NOT DISTINCT FROM $2::timestamptz AS "isProven"
  FROM users WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`;
const READ_ROLE = 'SELECT role FROM household_members WHERE household_id = $1 AND user_id = $2';

@Injectable()
export class HouseholdActions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly throttle: Throttle,
    private readonly clock: DatabaseClock,
  ) {}

  /**
   * @throws {ProblemException} not_found when the caller is not a member or the id is not a valid UUID; missing_role;
   * too_many_requests; hashing_busy; as {@link lockUsers}
   */
  async perform<Result>(
    caller: Caller,
    { id, needs, isDeletion = false, userId }: RequestedAction,
    work: (household: LockedHousehold) => Promise<Result>,
  ): Promise<Result> {
    await this.countAction(caller);
    if (!isId(id)) throw new ProblemException(problems.notFound);
    const lock = isDeletion ? LOCK_FOR_DELETION : LOCK_HOUSEHOLD;
    return this.dataSource.transaction(async (transaction) => {
      const [household] = await transaction.query<Pick<LockedHousehold, 'id' | 'name'>[]>(lock, [id]);
      if (!household) throw new ProblemException(problems.notFound);
      await this.lockUsers(transaction, caller, userId);
      if (needs !== null) await requireRole(transaction, household.id, caller, needs);
      return work({ transaction, ...household, now: await this.clock.now(transaction) });
    });
  }

  async countAction({ userId }: Caller): Promise<void> {
    if (userId !== null) await this.throttle.countAction('household-action', userId);
  }

  /**
   * @param otherId of another user whom the action concerns
   * @throws {ProblemException} invalid_access_token when the caller was disabled or deleted meanwhile; wrong_password
   * when the password was changed since it was proven
   */
  async lockUsers(transaction: EntityManager, { userId, proof }: Caller, otherId?: string): Promise<void> {
    const ids = [userId, otherId].filter((id) => id != null && isId(id));
    const users = await transaction.query<LockedUser[]>(LOCK_USERS, [ids, proof?.passwordChangedAt ?? null]);
    if (userId === null) return;
    const caller = users.find(({ id }) => id === userId);
    if (!caller?.isActive) throw createRefusal('user', 'session_ended', { user_id: userId });
    if (proof && !caller.isProven) throw createWrongPassword(userId, 'changed_meanwhile');
    await proof?.useProof(transaction);
  }
}

/** @returns undefined when the user is not a member */
export async function readRole(
  transaction: EntityManager,
  householdId: string,
  userId: string,
): Promise<HouseholdRole | undefined> {
  if (!isId(userId)) return undefined;
  const [member] = await transaction.query<{ role: HouseholdRole }[]>(READ_ROLE, [householdId, userId]);
  return member?.role;
}

async function requireRole(
  transaction: EntityManager,
  householdId: string,
  { userId }: Caller,
  needs: HouseholdRole,
): Promise<void> {
  if (userId === null) return;
  const role = await readRole(transaction, householdId, userId);
  if (role === undefined) throw new ProblemException(problems.notFound);
  if (needs === 'admin' && role === 'member') throw new ProblemException(problems.missingRole);
}

/** Refuses an action for which a stolen access token must not suffice. */
export function requireProof({ userId, proof }: Caller): void {
  if (userId !== null && !proof)
    refuseField('/password', 'must be sent for this action: it is the password of the caller');
}
