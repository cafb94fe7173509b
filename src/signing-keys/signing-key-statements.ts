import type { Statement } from '../database/database.js';
import type { SigningKeyState } from './signing-key.entity.js';

export type Algorithm = 'HS256' | 'ES256';

/** A row of {@link READ_KEYS}. */
export interface SigningKeyRow {
  readonly algorithm: Algorithm;
  readonly last_signed_at: Date | null;
  /** Null: the algorithm has no key of interest. */
  readonly kid: string | null;
  readonly state: SigningKeyState;
  readonly encrypted_private_key: Buffer | null;
  readonly created_at: Date;
  readonly activated_at: Date | null;
  readonly retired_at: Date | null;
}

/** `$1`: tokens of keys that were retired before it have expired. */
export const READ_KEYS: Statement = {
  name: 'signing_keys_read',
  text: `SELECT algorithm, last_signed_at, kid, state, encrypted_private_key, created_at, activated_at, retired_at
         FROM signing_algorithms LEFT JOIN
           (SELECT * FROM signing_keys WHERE state IN ('next', 'active') OR COALESCE(revoked_at, retired_at) > $1) AS keys
           USING (algorithm)`,
};

/** The condition spares the row a write for each replica. */
export const RECORD_SIGNING: Statement = {
  name: 'signing_algorithms_record',
  text: `INSERT INTO signing_algorithms (algorithm, last_signed_at) VALUES ($1, $2::timestamptz)
         ON CONFLICT (algorithm) DO UPDATE SET last_signed_at = EXCLUDED.last_signed_at
         WHERE signing_algorithms.last_signed_at IS NULL
           OR signing_algorithms.last_signed_at < EXCLUDED.last_signed_at - interval '30 seconds'`,
};

export const READ_LAST_SIGNING = 'SELECT last_signed_at FROM signing_algorithms WHERE algorithm = $1';

export const READ_ENCRYPTED: Statement = {
  name: 'signing_keys_read_encrypted',
  text: `SELECT id, kid, state, encrypted_private_key FROM signing_keys
         WHERE encrypted_private_key IS NOT NULL AND state <> 'revoked'`,
};

/** `$3`: what was decrypted, so that a replica with another SECRET_KEY does not undo this one's work unseen. */
export const REPLACE_ENCRYPTED: Statement = {
  name: 'signing_keys_replace_encrypted',
  text: `UPDATE signing_keys SET encrypted_private_key = $2 WHERE id = $1 AND encrypted_private_key = $3 RETURNING id`,
};

// The statements below run in transactions that hold the lock of signing keys.

export const RETIRE_ACTIVE = `UPDATE signing_keys SET state = 'retired', retired_at = $1 WHERE state = 'active'`;

export const ACTIVATE_NEXT = `UPDATE signing_keys SET state = 'active', activated_at = $1 WHERE state = 'next'`;

/** `$2`: keys that became what they are before it. */
export const RETIRE_UNUSED = `UPDATE signing_keys SET state = 'retired', retired_at = $1
  WHERE state IN ('next', 'active') AND GREATEST(created_at, activated_at) < $2`;

/** `$1`: tokens of keys that were retired before it have expired. */
export const ERASE_PRIVATE_KEYS = `UPDATE signing_keys SET encrypted_private_key = NULL
  WHERE encrypted_private_key IS NOT NULL AND (state = 'revoked' OR retired_at < $1)`;
