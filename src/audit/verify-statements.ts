import { CANONICAL_ROW, IS_SEALED, MICROS } from './seal-statements.js';

export interface FoundRow {
  readonly id: string;
  readonly micros: string;
  readonly xid: string;
  readonly event: string;
  readonly time: string;
  readonly time_ms: string;
  readonly recorded_ms: string | null;
  readonly canonical: string;
}

const TIME = `to_char(logged.time, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time`;

/** The lock keeps a month from being dropped between the snapshot and the first read of it. No JIT: plans are forced. */
export const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  LOCK TABLE audit_events IN ACCESS SHARE MODE;
  SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off`;

/** Forces a lookup by primary key for each listed row, instead of a scan of the whole log for each page of seals. */
export const PLAN_LOOKUPS =
  'SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off';
export const PLAN_SCANS =
  'SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_seqscan = on';

export const MONTHS = `SELECT to_char(starts, 'YYYY-MM') AS name FROM audit_events_months()`;

export const DROPS = `SELECT number, content, mac FROM audit_seals WHERE content LIKE '%"dropped":"%' ORDER BY number`;

export const SEALS = `SELECT number, content, mac, entries FROM audit_seals LEFT JOIN audit_seal_entries USING (number)
  WHERE number > $1 ORDER BY number LIMIT $2`;

export const SEAL = 'SELECT number, content, mac FROM audit_seals WHERE number = $1';

/** The rows with the ids `$1` at the times `$2`. */
export const LISTED_ROWS = `SELECT logged.id, listed.micros::text, logged.xid::text AS xid, logged.event, ${TIME},
    (extract(epoch FROM logged.time) * 1000)::text AS time_ms,
    (extract(epoch FROM logged.recorded_at) * 1000)::text AS recorded_ms, ${CANONICAL_ROW} AS canonical
  FROM unnest($1::uuid[], $2::bigint[]) AS listed (id, micros) JOIN audit_events AS logged
    ON logged.id = listed.id AND logged.time = CASE WHEN listed.micros = 9223372036854775807 THEN 'infinity'
      ELSE 'epoch'::timestamptz + listed.micros * interval '1 microsecond' END`;

export const BY_ID = `SELECT logged.id, ${TIME} FROM audit_events AS logged WHERE logged.id = ANY ($1::uuid[])`;

/** Rows within a sealed span that no seal lists, and rows with the id of a future transaction. At most `$3` of each. */
export const UNLISTED_ROWS = `WITH listed AS MATERIALIZED (
    SELECT encode(substring(entries FROM 56 * n + 1 FOR 16), 'hex')::uuid AS id,
      ('x' || encode(substring(entries FROM 56 * n + 17 FOR 8), 'hex'))::bit(64)::bigint AS micros
    FROM audit_seal_entries, generate_series(0, length(entries) / 56 - 1) AS n)
  (SELECT logged.id, ${TIME} FROM audit_events AS logged
   WHERE ${IS_SEALED} AND NOT EXISTS (SELECT FROM listed WHERE listed.id = logged.id AND listed.micros = ${MICROS})
   LIMIT $3)
  UNION ALL
  (SELECT logged.id, ${TIME} FROM audit_events AS logged, audit_settings
   WHERE logged.epoch > audit_settings.epoch
     OR (logged.epoch = audit_settings.epoch AND logged.xid >= pg_snapshot_xmax(pg_current_snapshot()))
   LIMIT $3)`;

export const WAITING = `SELECT count(*)::integer AS waiting FROM audit_events AS logged WHERE NOT (${IS_SEALED})`;
