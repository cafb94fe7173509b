import { withAuditEvent } from '../audit/audit-events.js';
import type { Statement } from '../database/database.js';
import { buildHasSecondFactor } from '../passwords/password-verifier.js';

/** Everything that a login with a second factor, or a change of the factors, needs to know about a user. */
export const READ_FACTORS: Statement = {
  name: 'second_factors_read',
  text: `SELECT users.id, email, password_changed_at AS "passwordChangedAt",
           email_verified_at AS "emailVerifiedAt",
           factors_changed_at AS "factorsChangedAt", is_active AS "isActive",
           encrypted_secret AS "encryptedSecret", totp_factors.created_at AS "enrolledAt", confirmed_at AS "confirmedAt",
           (SELECT count(*)::integer FROM recovery_codes WHERE user_id = users.id) AS "recoveryCodes",
           (SELECT COALESCE(jsonb_agg(jsonb_build_object(
              'id', encode(credential_id, 'base64'), 'transports', to_jsonb(transports)) ORDER BY passkeys.id), '[]')
            FROM passkeys WHERE user_id = users.id) AS passkeys
         FROM users LEFT JOIN totp_factors ON totp_factors.user_id = users.id WHERE users.id = $1`,
};

// The plain texts below run in transactions that have locked the row of the user (factor-changes.ts, new-sessions.ts).

/**
 * Replaces an enrolment that was not confirmed. No row when one is confirmed. It is later than the password that it needed,
 * and not before a proof of the address, whatever the clocks say.
 */
export const ENROL_TOTP = `INSERT INTO totp_factors AS known (user_id, encrypted_secret, key_mark, created_at)
  SELECT id, $2, $3, GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond', email_verified_at)
  FROM users WHERE id = $1
  ON CONFLICT (user_id) DO UPDATE
    SET encrypted_secret = excluded.encrypted_secret, key_mark = excluded.key_mark, created_at = excluded.created_at
    WHERE known.confirmed_at IS NULL
  RETURNING user_id`;

/** `$4`: the secret that the code was verified with. */
export const CONFIRM_TOTP = `UPDATE totp_factors SET confirmed_at = $2, last_step = $3
  WHERE user_id = $1 AND confirmed_at IS NULL AND encrypted_secret = $4 RETURNING user_id`;

/** Decides the race of one code that is sent several times: the time step only grows. */
export const USE_TIME_STEP = `UPDATE totp_factors SET last_step = $2
  WHERE user_id = $1 AND confirmed_at IS NOT NULL AND (last_step IS NULL OR last_step < $2)`;

export const USE_RECOVERY_CODE = withAuditEvent({
  name: 'recovery_codes_use',
  text: `DELETE FROM recovery_codes WHERE user_id = $1 AND digest = $2 RETURNING user_id`,
});

export const REMOVE_TOTP = 'DELETE FROM totp_factors WHERE user_id = $1';
export const DELETE_RECOVERY_CODES = 'DELETE FROM recovery_codes WHERE user_id = $1';
export const INSERT_RECOVERY_CODES =
  'INSERT INTO recovery_codes (user_id, digest) SELECT $1, digest FROM unnest($2::bytea[]) AS given (digest)';

/** Two ranges of an index: PostgreSQL uses none for `<>`. */
export const READ_OUTDATED_SECRETS = `SELECT user_id, encrypted_secret FROM totp_factors
  WHERE (key_mark < $1 OR key_mark > $1) AND user_id > $2 ORDER BY user_id LIMIT $3`;

/** `$3`: what was decrypted, so that a secret that was enrolled meanwhile stays. */
export const REPLACE_SECRETS = `UPDATE totp_factors SET encrypted_secret = given.encrypted, key_mark = $4
  FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS given (user_id, encrypted, former)
  WHERE totp_factors.user_id = given.user_id AND encrypted_secret = given.former`;

/** Locks the user, and voids the logins that are being verified: they have read another set of factors. */
export const TOUCH_USER = `UPDATE users SET factors_changed_at =
    GREATEST($2::timestamptz, factors_changed_at + interval '1 millisecond') WHERE id = $1 RETURNING id`;
export const READ_OWNER = `SELECT
    ${buildHasSecondFactor('$1')} AS "hasFactor",
    EXISTS (SELECT FROM sessions WHERE id = $2 AND user_id = $1 AND ended_at IS NULL) AS "isLive"`;
export const FIND_MOMENT_AFTER_ALL = `SELECT GREATEST($2::timestamptz,
    (SELECT max(created_at) FROM totp_factors WHERE user_id = $1) + interval '1 millisecond',
    (SELECT max(created_at) FROM passkeys WHERE user_id = $1) + interval '1 millisecond') AS moment`;
export const FIND_MOMENT_BEFORE_ALL = `SELECT LEAST($2::timestamptz,
    (SELECT min(created_at) FROM totp_factors WHERE user_id = $1),
    (SELECT min(created_at) FROM passkeys WHERE user_id = $1)) AS moment`;

/** `$2`: only the ones made before. Recovery codes are deleted with their app, and are never older. */
export const REMOVE_FACTORS = `WITH
    totp AS (DELETE FROM totp_factors WHERE user_id = $1 AND created_at < COALESCE($2::timestamptz, 'infinity')
             RETURNING user_id),
    keys AS (DELETE FROM passkeys WHERE user_id = $1 AND created_at < COALESCE($2::timestamptz, 'infinity')
             RETURNING user_id)
  SELECT (SELECT count(*)::integer FROM totp) AS totp, (SELECT count(*)::integer FROM keys) AS passkeys`;

const PASSKEY = `passkeys.id, user_id AS "userId", credential_id AS "credentialId", public_key AS "publicKey", counter,
  transports, is_synced AS "isSynced", name, passkeys.created_at AS "createdAt", last_used_at AS "lastUsedAt"`;

export const LIST_PASSKEYS: Statement = {
  name: 'passkeys_list',
  text: `SELECT ${PASSKEY} FROM passkeys WHERE user_id = $1 ORDER BY id`,
};

/** With the state of its owner in the same snapshot: a session begins only while that state lasts. */
export const READ_PASSKEY: Statement = {
  name: 'passkeys_read',
  text: `SELECT ${PASSKEY}, email, is_active AS "isActive", password_changed_at AS "passwordChangedAt",
           email_verified_at AS "emailVerifiedAt", factors_changed_at AS "factorsChangedAt"
         FROM passkeys JOIN users ON users.id = user_id WHERE credential_id = $1`,
};

/** `$10`: passkeys of one user at most. Not before a proof of the address, whatever the clocks say. */
export const INSERT_PASSKEY = `INSERT INTO passkeys
    (id, user_id, credential_id, public_key, counter, transports, is_synced, name, created_at)
  SELECT $1, id, $3, $4, $5, $6, $7, $8, GREATEST($9::timestamptz, email_verified_at) FROM users
  WHERE id = $2 AND (SELECT count(*) FROM passkeys WHERE user_id = $2) < $10
  RETURNING created_at AS "createdAt"`;

/** A counter that is not zero must grow (WebAuthn §6.1.1): otherwise two authenticators have the key. */
export const ADVANCE_COUNTER = `UPDATE passkeys SET counter = $2, last_used_at = $3
  WHERE id = $1 AND (counter < $2 OR (counter = 0 AND $2 = 0))`;

export const RENAME_PASSKEY = withAuditEvent({
  name: 'passkeys_rename',
  text: `UPDATE passkeys SET name = $3 WHERE id = $1 AND user_id = $2 RETURNING ${PASSKEY}`,
});

export const REMOVE_PASSKEY = 'DELETE FROM passkeys WHERE id = $1 AND user_id = $2 RETURNING id';
