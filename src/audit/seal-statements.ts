/** Tables are named as in the database; `audit_events` must be aliased to `logged` where a fragment is used. */

/**
 * All columns of a row as one text, in UTC. Columns that are null are left out: a column that is added later, and is null
 * in existing rows, does not change their text.
 */
export const CANONICAL_ROW = `(SELECT jsonb_object_agg(key, value)
  FROM jsonb_each(to_jsonb(logged)) WHERE value <> 'null')::text`;

/** Microseconds since 1970. Infinite times become the largest bigint. */
export const MICROS = `CASE WHEN isfinite(logged.time) THEN (extract(epoch FROM logged.time) * 1000000)::bigint
  ELSE 9223372036854775807 END`;

const COLUMNS = `logged.epoch, logged.xid::text AS xid, logged.time::text AS time, logged.id, (${MICROS})::text AS micros,
  to_char(logged.time, 'YYYY-MM') AS month, ${CANONICAL_ROW} AS canonical`;

/**
 * Visible in the snapshot `$2` of epoch `$1`. Written as CASE, which the planner does not use an index for: rows are read
 * in the order of the index, and this only filters them.
 */
export const IS_SEALED = `CASE WHEN logged.epoch = $1 THEN pg_visible_in_snapshot(logged.xid, $2::pg_snapshot)
  ELSE logged.epoch < $1 END`;

/** Forces the index: a batch reads its own rows only, and does not sort all unsealed ones. */
export const PLAN = "SET LOCAL TimeZone = 'UTC'; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";

/** One branch for each reason why the earlier snapshot does not show a row, so that each reads its own part of the index. */
function selectRows(condition: string): string {
  return `(SELECT ${COLUMNS} FROM audit_events AS logged
    WHERE ${condition} AND ${IS_SEALED}
      AND (logged.epoch, logged.xid, logged.time, logged.id) > ($6, $7::xid8, $8::timestamptz, $9::uuid)
    ORDER BY logged.epoch, logged.xid, logged.time, logged.id LIMIT $10)`;
}

/**
 * Rows that are visible in the snapshot `$2` of epoch `$1`, and not in the snapshot of epoch `$3` whose xmax is `$4` and
 * whose transactions in progress are `$5`; after the position `$6` to `$9`; at most `$10`.
 */
export const ROWS_TO_SEAL = `SELECT * FROM (
    ${selectRows('logged.epoch = $3 AND logged.xid >= $4::xid8')}
    UNION ALL ${selectRows('logged.epoch = $3 AND logged.xid < $4::xid8 AND logged.xid = ANY ($5::xid8[])')}
    UNION ALL ${selectRows('logged.epoch > $3')}) AS logged
  ORDER BY epoch, xid::xid8, time::timestamptz, id LIMIT $10`;

/** The time of PostgreSQL, and the snapshot of what is committed. */
export const PRESENT = `SELECT pg_current_snapshot()::text AS snapshot, clock_timestamp() AS at,
  (SELECT epoch FROM audit_settings) AS epoch`;

export const LAST_SEAL = 'SELECT number, content, mac FROM audit_seals ORDER BY number DESC LIMIT 1';
export const INSERT_SEAL = 'INSERT INTO audit_seals (number, content, mac) VALUES ($1, $2, $3)';
export const INSERT_ENTRIES = `INSERT INTO audit_seal_entries (number, latest, entries)
  VALUES ($1, $2::timestamptz, $3)`;
export const ENSURE_EPOCH = 'SELECT audit_events_ensure_epoch()';
