import { withAuditEvent } from '../audit/audit-events.js';
import { ANY_GIVEN_ID } from '../database/database.js';

/** The hot statements of login, refresh and bearer requests. Times come from the injected clock. */

/**
 * FOR SHARE on the user's row closes the race with the transaction that disables the user, changes the second factors, or
 * sets another password than the one that was verified.
 */
export const START_SESSION = withAuditEvent({
  name: 'sessions_start',
  text: `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, created_at, expires_at, absolute_expires_at,
                               created_from, user_agent, amr)
         SELECT $1, active.id, $3, 0, $4, $4, LEAST($5, $6::timestamptz), $6, $8, $9, $10
         FROM (SELECT id FROM users
               WHERE id = $2 AND is_active AND password_changed_at IS NOT DISTINCT FROM $7::timestamptz
                 AND factors_changed_at IS NOT DISTINCT FROM $11::timestamptz
               FOR SHARE) AS active
         RETURNING id`,
});

/**
 * Evicts the sessions of a user beyond the session limit: expired ones first, then the oldest logins. A statement of its
 * own, after the INSERT: only a snapshot taken after the INSERT shows the sessions of parallel logins, and the last login
 * sees all. The new session stays, also when the clock of its replica is behind and its id is the oldest. Rows are locked
 * in the order of their ids, as in END_ALL_SESSIONS, against deadlocks.
 */
export const END_SURPLUS_SESSIONS = withAuditEvent({
  name: 'sessions_end_surplus',
  text: `WITH surplus AS (
           SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL
           ORDER BY (id = $4) DESC, (expires_at > $2) DESC, id DESC OFFSET $3::integer),
         locked AS (
           SELECT id FROM sessions WHERE id IN (SELECT id FROM surplus) AND ended_at IS NULL ORDER BY id FOR UPDATE)
         UPDATE sessions SET ended_at = $2, end_reason = 'session_limit'
         FROM locked WHERE sessions.id = locked.id RETURNING sessions.id`,
});

/**
 * One conditional statement decides the race: of concurrent presentations of a token, one rotates it. The others wait for
 * the row lock until the rotation is visible. `was_current` is read from the snapshot of the statement, taken before that
 * wait: true for a token that did not rotate means that the rotation became visible while this statement ran. Always one
 * row.
 */
export const ROTATE = {
  name: 'sessions_rotate',
  text: `WITH rotated AS (
           UPDATE sessions
           SET token_digest = $3, generation = generation + 1, rotated_at = $4, rotated_from = $6,
               expires_at = LEAST($5, absolute_expires_at)
           FROM users
           WHERE sessions.id = $1 AND token_digest = $2 AND ended_at IS NULL AND expires_at > $4
             AND users.id = user_id AND users.is_active
           RETURNING user_id, users.email, amr)
         SELECT user_id, email, amr,
           user_id IS NULL AND EXISTS (SELECT FROM sessions WHERE id = $1 AND token_digest = $2) AS was_current
         FROM (VALUES (true)) AS always LEFT JOIN rotated ON true`,
};

/** Restarts the grace when the slow commit of a rotation has become visible, unless its token was rotated since. */
export const RESTART_GRACE = {
  name: 'sessions_restart_grace',
  text: `UPDATE sessions SET rotated_at = $3
         WHERE id = $1 AND token_digest = $2 AND ended_at IS NULL AND rotated_at < $3`,
};

/** At most one audit event per rotation: the holder of a token could cause thousands within the grace. */
export const RECORD_REPEAT_ELSEWHERE = withAuditEvent({
  name: 'sessions_record_repeat_elsewhere',
  text: `UPDATE sessions SET elsewhere_generation = generation
         WHERE id = $1 AND generation = $2 AND elsewhere_generation IS DISTINCT FROM generation RETURNING id`,
});

export const READ_SUPERSEDED = {
  name: 'sessions_read_superseded',
  text: `SELECT user_id, email, amr, token_digest, generation, rotated_at, rotated_from
         FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = $1 AND ended_at IS NULL AND expires_at > $2 AND is_active`,
};

export const READ_FOR_LOGOUT = {
  name: 'sessions_read_for_logout',
  text: 'SELECT user_id, token_digest, generation FROM sessions WHERE id = $1 AND ended_at IS NULL',
};

export const END_SESSION = withAuditEvent({
  name: 'sessions_end',
  text: 'UPDATE sessions SET ended_at = $2, end_reason = $3 WHERE id = $1 AND ended_at IS NULL RETURNING user_id',
});

/**
 * All but `$4`, which may be null. Runs in the transaction of the act that ends them, which records the audit event.
 */
export const END_ALL_SESSIONS = `WITH locked AS (
    SELECT id FROM sessions
    WHERE user_id = $1 AND ended_at IS NULL AND id IS DISTINCT FROM $4::uuid ORDER BY id FOR UPDATE)
  UPDATE sessions SET ended_at = $2, end_reason = $3 FROM locked WHERE sessions.id = locked.id`;

export const END_OTHER_SESSIONS = withAuditEvent({
  name: 'sessions_end_others',
  text: `${END_ALL_SESSIONS} RETURNING sessions.id`,
});

/** Of the given sessions, the live ones of active users. */
export const READ_LIVE = {
  name: 'sessions_read_live',
  text: `SELECT sessions.id, user_id, email, amr, absolute_expires_at FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = ${ANY_GIVEN_ID} AND ended_at IS NULL AND absolute_expires_at > $2 AND is_active`,
};

/** `$1`: ended or expired before; `$2`: batch size. */
export const PURGE_SESSIONS = `DELETE FROM sessions WHERE id IN
  (SELECT id FROM sessions WHERE LEAST(expires_at, ended_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`;

/** Runs only for a scrape of the metrics. The condition matches `sessions_dead_at_idx`. */
export const COUNT_LIVE_SESSIONS = `SELECT count(*)::integer AS live FROM sessions
  WHERE LEAST(expires_at, ended_at) > $1 AND ended_at IS NULL`;
