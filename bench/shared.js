import { keyStatements } from '../dist/src/credentials/key-statements.js';

export const CONNECTIONS = 64;
/** DATABASE_POOL_SIZE, as shipped. */
export const POOL_SIZE = 10;

export const READ_NODE = keyStatements({
  name: 'nodes',
  door: 'node',
  auditedAs: 'admin.node',
  identityColumns: ['household_id'],
  keyPrefix: '',
}).read;
export const READ_APP = keyStatements({
  name: 'app_credentials',
  door: 'app',
  auditedAs: 'admin.app_credential',
  identityColumns: ['caller', 'target'],
  keyPrefix: '',
}).read;
export const READ_USER = {
  name: 'bench_users_read',
  text: 'SELECT id, email, is_active, created_at, updated_at FROM users WHERE id = $1',
};
/** What rate-limiter-flexible sends to count one call. */
export const SPEND = {
  name: 'bench_spend',
  text: `INSERT INTO throttle_counters AS counter VALUES ($1, $2, $3)
         ON CONFLICT (key) DO UPDATE SET
           points = CASE WHEN counter.expire <= $4 THEN $2 ELSE counter.points + $2 END,
           expire = CASE WHEN counter.expire <= $4 THEN $3 ELSE counter.expire END
         RETURNING points, expire`,
};

/** @returns the value below which a share of all lies */
export function percentile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
