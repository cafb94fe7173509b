/**
 * Statements of acts that a password authorised: each locks the row of the account, and is conditional on the account being
 * active and its password unchanged since it was verified. Of two acts that race, the second one is refused.
 */
import type { EntityManager } from 'typeorm';
import { createRefusal } from '../access/doors.js';
import type { PasswordHash } from '../passwords/password-hasher.js';
import { createWrongPassword } from '../passwords/password-verifier.js';
import { User } from './users.service.js';

type PasswordState = Pick<User, 'id' | 'passwordChangedAt'>;

const IS_UNCHANGED = `id = $1 AND is_active AND password_changed_at IS NOT DISTINCT FROM $2::timestamptz`;

/** The moment is strictly later than before: it identifies the password, also when the clock of a replica is behind. */
const SET_PASSWORD = `UPDATE users
  SET password_hash = $3, updated_at = $4,
      password_changed_at = GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond')
  WHERE ${IS_UNCHANGED}`;
const DELETE = `DELETE FROM users WHERE ${IS_UNCHANGED}`;
const LOCK = `SELECT id FROM users WHERE ${IS_UNCHANGED} FOR NO KEY UPDATE`;

/**
 * The only statement that sets the password of an existing account; a rehash keeps the password.
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
 * The foreign keys delete everything that belongs to the account. The audit log keeps the act.
 * @throws {ProblemException} as {@link lockAccount}
 */
export async function deleteAccount(transaction: EntityManager, account: PasswordState): Promise<void> {
  const [, count] = await transaction.query<[unknown, number]>(DELETE, [account.id, account.passwordChangedAt]);
  if (count === 0) await refuseChanged(transaction, account);
}

/**
 * @throws {ProblemException} wrong_password when the password was changed meanwhile; invalid_access_token when the account is
 * gone or disabled
 */
export async function lockAccount(transaction: EntityManager, account: PasswordState): Promise<void> {
  if (!(await lockIfUnchanged(transaction, account))) await refuseChanged(transaction, account);
}

export async function lockIfUnchanged(
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
