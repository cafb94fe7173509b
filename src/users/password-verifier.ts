import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import type { Turn } from '../common/keyed-queue.js';
import { PasswordHasher } from '../crypto/password-hasher.js';
import { Database } from '../database/database.js';
import { ProblemException } from '../problems/problems.js';
import { User } from './user.entity.js';

/**
 * Whether logins ask for a second factor: a login reads it together with the user.
 * @param userId an expression of SQL
 */
export const buildHasSecondFactor = (userId: 'users.id' | '$1'): string =>
  `EXISTS (SELECT FROM totp_factors WHERE user_id = ${userId} AND confirmed_at IS NOT NULL)
    OR EXISTS (SELECT FROM passkeys WHERE user_id = ${userId})`;

const SELECT = `SELECT id, email, password_hash AS "passwordHash", is_active AS "isActive",
  password_changed_at AS "passwordChangedAt", email_verified_at AS "emailVerifiedAt",
  factors_changed_at AS "factorsChangedAt",
  ${buildHasSecondFactor('users.id')} AS "hasSecondFactor" FROM users`;
const READ_BY_EMAIL = { name: 'users_read_by_email', text: `${SELECT} WHERE email = $1` };
const READ_BY_ID = { name: 'users_read_password', text: `${SELECT} WHERE id = $1` };

/** With the moment that identifies the password that was verified: it changes with the password, not with a rehash. */
export type VerifiedUser = Pick<User, 'id' | 'email' | 'passwordChangedAt' | 'emailVerifiedAt' | 'factorsChangedAt'> & {
  readonly hasSecondFactor: boolean;
};
type VerifiedRow = User & VerifiedUser;
export type PasswordVerdict =
  | { readonly valid: true; readonly user: VerifiedUser }
  | { readonly valid: false; readonly reason: 'unknown' | 'wrong_password' | 'disabled'; readonly userId?: string };

@Injectable()
export class PasswordVerifier {
  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly database: Database,
    private readonly hasher: PasswordHasher,
  ) {}

  /**
   * One read and one bcrypt, whatever the verdict: the response time does not tell whether the account exists.
   * @param email canonical
   * @param turn the client's place in the hashing queue
   * @throws {ProblemException} hashing_busy
   */
  async verify(email: string, password: string, turn: Turn): Promise<PasswordVerdict> {
    return this.judge(await this.database.row<VerifiedRow>(READ_BY_EMAIL, [email]), password, turn);
  }

  /**
   * The same for a user who is logged in.
   * @throws {ProblemException} hashing_busy
   */
  async verifyById(userId: string, password: string, turn: Turn): Promise<PasswordVerdict> {
    return this.judge(await this.database.row<VerifiedRow>(READ_BY_ID, [userId]), password, turn);
  }

  private async judge(user: VerifiedRow | undefined, password: string, turn: Turn): Promise<PasswordVerdict> {
    const matches = await this.hasher.verify(password, user?.passwordHash, turn);
    if (!user) return { valid: false, reason: 'unknown' };
    if (!matches) return { valid: false, reason: 'wrong_password', userId: user.id };
    if (!user.isActive) return { valid: false, reason: 'disabled', userId: user.id };
    if (this.hasher.isOutdated(user.passwordHash)) await this.rehash(user, password, turn);
    return { valid: true, user };
  }

  /** Rehashes at the configured cost, unless the hash changed meanwhile. With a full queue the next login rehashes. */
  private async rehash({ id, passwordHash }: User, password: string, turn: Turn): Promise<void> {
    try {
      await this.users.update({ id, passwordHash }, { passwordHash: await this.hasher.hash(password, turn) });
    } catch (error) {
      if (!(error instanceof ProblemException)) throw error;
    }
  }
}
