// The rows of passkeys: users and operators have a table each, of the same columns but for the owner.

import type { EntityManager } from 'typeorm';
import { createId } from '../../foundation/common/ids.js';
import { translateViolation } from '../../foundation/database/database-failure.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import type { RegistrationJson, VerifiedPasskey } from './relying-party.js';

/** A passkey as its owner sees it. */
export interface Passkey {
  readonly id: string;
  /** Whether the authenticator may copy the private key to other devices. */
  readonly isSynced: boolean;
  readonly name: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

export const PASSKEY_COLUMNS = `id, is_synced AS "isSynced", name, created_at AS "createdAt", last_used_at AS "lastUsedAt"`;

export const MAX_PASSKEYS = 20;

const OWNER_COLUMNS = { passkeys: 'user_id', operator_passkeys: 'operator_id' } as const;
type PasskeyTable = keyof typeof OWNER_COLUMNS;

/**
 * A counter other than zero must grow (WebAuthn §6.1.1), because otherwise two authenticators have the key.
 * `$1`: id of the passkey, `$2`: its counter, `$3`: now
 */
export const buildCounterAdvance = (table: PasskeyTable): string =>
  `UPDATE ${table} SET counter = $2, last_used_at = $3 WHERE id = $1 AND (counter < $2 OR (counter = 0 AND $2 = 0))`;

/** SQL for the passkeys of an owner as `KnownPasskey`s, the oldest first. */
export const buildKnownPasskeys = (table: PasskeyTable, isOfOwner: string): string =>
  `(SELECT COALESCE(jsonb_agg(jsonb_build_object(
       'id', translate(encode(credential_id, 'base64'), E'+/=\\n', '-_'),
       'transports', to_jsonb(transports)) ORDER BY ${table}.id), '[]')
     FROM ${table} WHERE ${isOfOwner})`;

interface NewPasskey extends Pick<VerifiedPasskey, 'credential' | 'credentialDeviceType'> {
  readonly ownerId: string;
  readonly name: string;
  readonly transports: RegistrationJson['response']['transports'];
  readonly now: Date;
}

/** `$2`: the owner; `$10`: the maximum number of passkeys of an owner. */
const buildInsert = (table: PasskeyTable): string => `INSERT INTO ${table}
    (id, ${OWNER_COLUMNS[table]}, credential_id, public_key, counter, transports, is_synced, name, created_at)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
  WHERE (SELECT count(*) FROM ${table} WHERE ${OWNER_COLUMNS[table]} = $2) < $10
  RETURNING ${PASSKEY_COLUMNS}`;

/**
 * The caller has locked the row of the owner, so that concurrent calls cannot exceed {@link MAX_PASSKEYS}.
 * @throws {ProblemException} passkey_exists; too_many_passkeys
 */
export async function insertPasskey(
  transaction: EntityManager,
  table: PasskeyTable,
  { ownerId, name, credential, credentialDeviceType, transports, now }: NewPasskey,
): Promise<Passkey> {
  const values = [
    createId(),
    ownerId,
    Buffer.from(credential.id, 'base64url'),
    Buffer.from(credential.publicKey),
    credential.counter,
    transports,
    credentialDeviceType === 'multiDevice',
    name,
    now,
    MAX_PASSKEYS,
  ];
  const [added] = await translateViolation(
    transaction.query<Passkey[]>(buildInsert(table), values),
    `${table}_credential_id_key`,
    () => new ProblemException(problems.passkeyExists),
  );
  if (!added) throw new ProblemException(problems.tooManyPasskeys);
  return added;
}
