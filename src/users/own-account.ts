/**
 * What users do to their own account after they entered the password again (passwords/password-verifier.ts): set another
 * password, delete the account. Each act begins with one statement that locks the row and is conditional on the account
 * being active and its password unchanged since: of two acts that race, the second one is refused.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { toNetworks } from '../common/network.js';
import { PasswordHasher, type PasswordHash } from '../passwords/password-hasher.js';
import { createWrongPassword, type VerifiedUser } from '../passwords/password-verifier.js';
import type { ProblemException } from '../problems/problems.js';
import { User } from './users.service.js';

/** The account, with the moment that identifies the password that was verified. */
export type PasswordState = Pick<User, 'id' | 'passwordChangedAt'>;

const IS_UNCHANGED = `id = $1 AND is_active AND password_changed_at IS NOT DISTINCT FROM $2::timestamptz`;

/** The moment is strictly later than before: it identifies the password, also when the clock of a replica is behind. */
const SET_PASSWORD = `UPDATE users
  SET password_hash = $3, updated_at = $4,
      password_changed_at = GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond')
  WHERE ${IS_UNCHANGED}`;

const DELETE = `DELETE FROM users WHERE ${IS_UNCHANGED}`;
const LOCK = `SELECT id FROM users WHERE ${IS_UNCHANGED} FOR NO KEY UPDATE`;

@Injectable()
export class OwnAccount {
  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly hasher: PasswordHasher,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * @param newPassword that the policy accepts
   * @param endSessions ends the sessions that began with the old password. @returns their number
   * @throws {ProblemException} hashing_busy; wrong_password when it was changed meanwhile; invalid_access_token
   */
  async changePassword(
    verified: VerifiedUser,
    newPassword: string,
    actor: Actor,
    endSessions: (transaction: EntityManager, userId: string) => Promise<number>,
  ): Promise<void> {
    const { id: userId } = verified;
    const turn = { networks: toNetworks(actor.address), isKnown: true };
    const passwordHash = await this.hasher.hashPassword(newPassword, turn);
    await this.users.manager.transaction(async (transaction) => {
      // Before the sessions end: a login with the old password that comes later waits for this lock, and is refused.
      if (!(await this.setPassword(transaction, verified, passwordHash))) throw await explainMiss(transaction, userId);
      const count = await endSessions(transaction, userId);
      await this.audit.record(transaction, {
        event: 'user.password.changed',
        actor,
        time: this.clock.now(),
        subject: userId,
        details: { ended_sessions: count },
        logFields: { user_id: userId, count },
      });
    });
  }

  /**
   * The only statement that sets the password of an existing account; a rehash keeps the password.
   * @returns false when the account is gone or disabled, or its password was set since
   */
  async setPassword(transaction: EntityManager, user: PasswordState, passwordHash: PasswordHash): Promise<boolean> {
    const values = [user.id, user.passwordChangedAt, passwordHash, this.clock.now()];
    const [, count] = await transaction.query<[unknown, number]>(SET_PASSWORD, values);
    return count === 1;
  }

  /**
   * Locks the row of the account.
   * @returns false when the account is gone or disabled, or its password was set since
   */
  async lockAccount(transaction: EntityManager, { id, passwordChangedAt }: PasswordState): Promise<boolean> {
    return (await transaction.query<unknown[]>(LOCK, [id, passwordChangedAt])).length > 0;
  }

  /**
   * Locks the row of the account, or refuses.
   * @throws {ProblemException} wrong_password when it was changed meanwhile; invalid_access_token when the account is gone
   * or disabled
   */
  async requireUnchanged(transaction: EntityManager, user: PasswordState): Promise<void> {
    if (!(await this.lockAccount(transaction, user))) throw await explainMiss(transaction, user.id);
  }

  /**
   * Deletes the account; the foreign keys delete everything that belongs to it. The audit log keeps the act.
   * @throws {ProblemException} wrong_password when it was changed meanwhile; invalid_access_token when it is gone or
   * disabled
   */
  async deleteAccount({ id: userId, passwordChangedAt }: VerifiedUser, actor: Actor): Promise<void> {
    await this.users.manager.transaction(async (transaction) => {
      const [, count] = await transaction.query<[unknown, number]>(DELETE, [userId, passwordChangedAt]);
      if (count === 0) throw await explainMiss(transaction, userId);
      await this.audit.record(transaction, {
        event: 'user.deleted',
        actor,
        time: this.clock.now(),
        subject: userId,
        logFields: { user_id: userId },
      });
    });
  }
}

async function explainMiss(transaction: EntityManager, userId: string): Promise<ProblemException> {
  const isActive = await transaction.existsBy(User, { id: userId, isActive: true });
  return isActive
    ? createWrongPassword(userId, 'changed_meanwhile')
    : createRefusal('user', 'session_ended', { user_id: userId });
}
