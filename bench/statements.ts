/** The default of DATABASE_POOL_SIZE. */
export const POOL_SIZE = 10;

// The statements of one request, without the batching with which the service serves concurrent ones.

export const READ_NODE = {
  name: 'bench_nodes_read',
  text: `SELECT id, household_id, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
         FROM nodes WHERE id = $1`,
};

export const READ_USER = {
  name: 'bench_users_read',
  text: 'SELECT id, email, is_active, created_at, updated_at FROM users WHERE id = $1',
};

export const READ_LIVE_SESSION = {
  name: 'bench_sessions_is_live',
  text: `SELECT 1 FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = $1 AND user_id = $2 AND ended_at IS NULL AND absolute_expires_at > $3 AND is_active`,
};

export const INSERT_SESSION = `
  INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
  VALUES ($1, $2, $3, 0, now(), now() + interval '1 day', now() + interval '1 day', now())`;
