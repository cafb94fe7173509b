import { audited } from '../audit/audit-entry.js';
import { ANY_GIVEN_ID } from '../database/rows-by-id.js';

/** The statements that every login, refresh and bearer request waits for. Times come from the injected clock. */

/** The user's row is locked, so that a session cannot slip in beside the transaction that disables them. */
export const START_SESSION = audited({
  name: 'sessions_start',
  text: `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, created_at, expires_at, absolute_expires_at)
         SELECT $1, active.id, $3, 0, $4, $4, LEAST($5, $6::timestamptz), $6
         FROM (SELECT id FROM users WHERE id = $2 AND is_active FOR SHARE) AS active
         RETURNING id`,
});

/** One conditional statement: of many presentations of a token, one rotates it. */
export const ROTATE = {
  name: 'sessions_rotate',
  text: `UPDATE sessions
         SET token_digest = $3, generation = generation + 1, rotated_at = $4, expires_at = LEAST($5, absolute_expires_at)
         FROM users
         WHERE sessions.id = $1 AND token_digest = $2 AND ended_at IS NULL AND expires_at > $4
           AND users.id = user_id AND users.is_active
         RETURNING user_id, users.email`,
};

export const READ_FOR_REPLAY = {
  name: 'sessions_read_for_replay',
  text: `SELECT user_id, email, token_digest, generation, rotated_at
         FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = $1 AND ended_at IS NULL AND expires_at > $2 AND is_active`,
};

export const READ_FOR_LOGOUT = {
  name: 'sessions_read_for_logout',
  text: 'SELECT user_id, token_digest, generation FROM sessions WHERE id = $1 AND ended_at IS NULL',
};

export const END_SESSION = audited({
  name: 'sessions_end',
  text: 'UPDATE sessions SET ended_at = $2, end_reason = $3 WHERE id = $1 AND ended_at IS NULL RETURNING user_id',
});

/** Runs in the transaction of whoever disables the user or ends their sessions, and is recorded there. */
export const END_ALL_SESSIONS =
  'UPDATE sessions SET ended_at = $2, end_reason = $3 WHERE user_id = $1 AND ended_at IS NULL';

/** Of sessions, those that go on and whose user is active. */
export const READ_LIVE = {
  name: 'sessions_read_live',
  text: `SELECT sessions.id, user_id FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = ${ANY_GIVEN_ID} AND ended_at IS NULL AND absolute_expires_at > $2 AND is_active`,
};

/** `$1`: dead before; `$2`: at most so many. */
export const PURGE_SESSIONS = `DELETE FROM sessions WHERE id IN
  (SELECT id FROM sessions WHERE LEAST(expires_at, ended_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`;

/** Asked seldom, and only when somebody watches. The bounds are those of `sessions_dead_at_idx`. */
export const COUNT_LIVE_SESSIONS = `SELECT count(*)::integer AS live FROM sessions
  WHERE LEAST(expires_at, ended_at) > $1 AND ended_at IS NULL`;
