/**
 * Verifies the password of an account: at a login, and again before an act for which a stolen access token must not
 * suffice. It reads and rehashes passwords in the table of users; everything else about a user is in users/.
 */
import { Injectable } from '@nestjs/common';
import type { OwnCall } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import type { Ticket } from '../../foundation/common/fair-queue.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Database } from '../../foundation/database/database.js';
import { ProblemException, problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import { LoginThrottle } from '../../foundation/throttling/guess-throttles.js';
import { PasswordHasher, type PasswordHash } from './password-hasher.js';

/** The SQL condition on a user whose logins need a second factor. */
export const buildHasSecondFactor = (userId: 'users.id' | '"User".id' | '$1'): string =>
  `EXISTS (SELECT FROM totp_factors WHERE user_id = ${userId} AND confirmed_at IS NOT NULL)
    OR EXISTS (SELECT FROM passkeys WHERE user_id = ${userId})`;

export const ACCOUNT_STATE = `users.id, email, is_active AS "isActive", password_changed_at AS "passwordChangedAt",
  email_verified_at AS "emailVerifiedAt", factors_changed_at AS "factorsChangedAt"`;
const SELECT = `SELECT ${ACCOUNT_STATE}, password_hash AS "passwordHash",
  ${buildHasSecondFactor('users.id')} AS "hasSecondFactor" FROM users`;
const READ_BY_EMAIL = { name: 'users_read_by_email', text: `${SELECT} WHERE email = $1` };
const READ_BY_ID = { name: 'users_read_password', text: `${SELECT} WHERE id = $1` };
/** Has no effect when the hash was changed since it was read. */
const REHASH = {
  name: 'users_rehash',
  text: 'UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2',
};

/** The state of an account when its password or passkey was verified. */
export interface AccountState {
  readonly id: string;
  readonly email: string;
  readonly isActive: boolean;
  /** Identifies the verified password: it changes with the password, and not with a rehash. */
  readonly passwordChangedAt: Date | null;
  readonly emailVerifiedAt: Date | null;
  readonly factorsChangedAt: Date | null;
}

export interface VerifiedUser extends AccountState {
  readonly hasSecondFactor: boolean;
}

type PasswordVerdict =
  | { readonly valid: true; readonly user: VerifiedUser }
  | { readonly valid: false; readonly reason: 'unknown' | 'wrong_password' | 'disabled'; readonly userId?: string };

interface AccountRow extends VerifiedUser {
  readonly passwordHash: PasswordHash;
}

export const PASSWORD_PROBLEMS = [problems.wrongPassword, ...THROTTLE_PROBLEMS];

/** The refusal of a password that a logged-in user entered again. Not a 401, because the access token is valid. */
export function createWrongPassword(userId: string, reason: RefusalReason<'user.password.refused'>): ProblemException {
  const refusal = { event: 'user.password.refused', reason, fields: { user_id: userId } } as const;
  return new ProblemException(problems.wrongPassword, { refusal });
}

@Injectable()
export class PasswordVerifier {
  constructor(
    private readonly database: Database,
    private readonly hasher: PasswordHasher,
    private readonly throttle: LoginThrottle,
    private readonly refusals: CountedRefusals,
  ) {}

  /**
   * One read and one hash for any verdict, so that the response time does not reveal whether the account exists. An
   * imported hash takes the time of its own form until its first login.
   */
  async verifyPassword(email: string, password: string, ticket: Ticket): Promise<PasswordVerdict> {
    return this.judgePassword(await this.database.row<AccountRow>(READ_BY_EMAIL, [email]), password, ticket);
  }

  /**
   * Verifies the password that a logged-in user entered again. A wrong one is throttled, and counted in the audit log,
   * like a failed login of the account.
   * @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token when the account
   * was deleted or disabled meanwhile
   */
  async reauthenticateUser({ principal, actor }: OwnCall, password: string): Promise<VerifiedUser> {
    const { userId, email } = principal;
    const verdict = await this.throttle.countPasswordGuess(email, actor.address, async (ticket) =>
      this.judgePassword(await this.database.row<AccountRow>(READ_BY_ID, [userId]), password, ticket),
    );
    if (verdict.valid) return verdict.user;
    if (verdict.reason !== 'wrong_password') throw createRefusal('user', 'session_ended', { user_id: userId });
    const counted = { reason: 'wrong_current_password', counted: email, subject: userId };
    await this.refusals.countRefusal({ event: 'user.login.failed', ...counted }, actor);
    throw createWrongPassword(userId, 'wrong_password');
  }

  private async judgePassword(
    user: AccountRow | undefined,
    password: string,
    ticket: Ticket,
  ): Promise<PasswordVerdict> {
    const matches = await this.hasher.comparePassword(password, user?.passwordHash, ticket);
    if (!user) return { valid: false, reason: 'unknown' };
    if (!matches) return { valid: false, reason: 'wrong_password', userId: user.id };
    if (!user.isActive) return { valid: false, reason: 'disabled', userId: user.id };
    if (this.hasher.isOutdated(user.passwordHash)) await this.rehashPassword(user, password, ticket);
    return { valid: true, user };
  }

  /** Rehashes at the configured cost. If the queue is full, the next login does. */
  private async rehashPassword({ id, passwordHash }: AccountRow, password: string, ticket: Ticket): Promise<void> {
    try {
      await this.database.rows(REHASH, [id, passwordHash, await this.hasher.hashPassword(password, ticket)]);
    } catch (error) {
      if (!(error instanceof ProblemException)) throw error;
    }
  }
}
