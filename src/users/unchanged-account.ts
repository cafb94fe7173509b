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
 * @returns false when the account is gone or disabled, or its password was set since
 */
export async function setPassword(
  transaction: EntityManager,
  { id, passwordChangedAt }: PasswordState,
  passwordHash: PasswordHash,
  now: Date,
): Promise<boolean> {
  const values = [id, passwordChangedAt, passwordHash, now];
  const [, count] = await transaction.query<[unknown, number]>(SET_PASSWORD, values);
  return count === 1;
}

/** The foreign keys delete everything that belongs to the account. The audit log keeps the act. */
export async function deleteAccount(
  transaction: EntityManager,
  { id, passwordChangedAt }: PasswordState,
): Promise<boolean> {
  const [, count] = await transaction.query<[unknown, number]>(DELETE, [id, passwordChangedAt]);
  return count === 1;
}

export async function lockAccount(
  transaction: EntityManager,
  { id, passwordChangedAt }: PasswordState,
): Promise<boolean> {
  return (await transaction.query<unknown[]>(LOCK, [id, passwordChangedAt])).length > 0;
}

/**
 * Refuses the act when its statement returned false.
 * @throws {ProblemException} wrong_password when the password was changed meanwhile; invalid_access_token when the account is
 * gone or disabled
 */
export async function requireUnchanged(transaction: EntityManager, id: string, isUnchanged: boolean): Promise<void> {
  if (isUnchanged) return;
  const isActive = await transaction.existsBy(User, { id, isActive: true });
  throw isActive
    ? createWrongPassword(id, 'changed_meanwhile')
    : createRefusal('user', 'session_ended', { user_id: id });
}
