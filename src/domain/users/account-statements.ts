/**
 * Statements of actions that a password authorises. Each locks the row of the account, and requires that the account is
 * active and its password unchanged since it was verified. Of two such actions that race, the second one is refused.
 */
import type { EntityManager } from 'typeorm';
import { createRefusal } from '../../foundation/access/doors.js';
import type { PasswordHash } from '../passwords/password-hasher.js';
import { createWrongPassword } from '../passwords/password-verifier.js';
import { User } from './user.entity.js';

type PasswordState = Pick<User, 'id' | 'passwordChangedAt'>;

const IS_UNCHANGED = `id = $1 AND is_active AND password_changed_at IS NOT DISTINCT FROM $2::timestamptz`;

/** Strictly increases the moment, which identifies the password, even when the clock of a replica is slow. */
const SET_PASSWORD = `UPDATE users
  SET password_hash = $3, updated_at = $4,
      password_changed_at = GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond')
  WHERE ${IS_UNCHANGED}`;
const DELETE = `DELETE FROM users WHERE ${IS_UNCHANGED}`;
const LOCK = `SELECT id FROM users WHERE ${IS_UNCHANGED} FOR NO KEY UPDATE`;

/**
 * Sets a new password of an existing account. The only other statement that updates a hash, the rehash at a login,
 * keeps the password.
 * @throws {ProblemException} as {@link lockAccount}
 */
export async function setPassword(
  transaction: EntityManager,
  account: PasswordState,
  passwordHash: PasswordHash,
  now: Date,
): Promise<void> {
  const values = [account.id, account.passwordChangedAt, passwordHash, now];
  const [, count] = await transaction.query<[unknown, number]>(SET_PASSWORD, values);
  if (count === 0) await refuseChanged(transaction, account);
}

/**
 * Deletes the account, and by foreign keys everything that belongs to it except the audit log.
 * @throws {ProblemException} as {@link lockAccount}
 */
export async function deleteAccountRow(transaction: EntityManager, account: PasswordState): Promise<void> {
  const [, count] = await transaction.query<[unknown, number]>(DELETE, [account.id, account.passwordChangedAt]);
  if (count === 0) await refuseChanged(transaction, account);
}

/**
 * @throws {ProblemException} wrong_password when the password was changed meanwhile; invalid_access_token when the
 * account was deleted or disabled
 */
export async function lockAccount(transaction: EntityManager, account: PasswordState): Promise<void> {
  if (!(await lockAccountIfUnchanged(transaction, account))) await refuseChanged(transaction, account);
}

export async function lockAccountIfUnchanged(
  transaction: EntityManager,
  { id, passwordChangedAt }: PasswordState,
): Promise<boolean> {
  return (await transaction.query<unknown[]>(LOCK, [id, passwordChangedAt])).length > 0;
}

async function refuseChanged(transaction: EntityManager, { id }: PasswordState): Promise<never> {
  const isActive = await transaction.existsBy(User, { id, isActive: true });
  throw isActive
    ? createWrongPassword(id, 'changed_meanwhile')
    : createRefusal('user', 'session_ended', { user_id: id });
}
