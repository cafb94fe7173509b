import type { Statement } from '../../database/database.js';
import { isPurged, parseCursor, shortenSnapshot } from './cursor.js';

/** Beyond this the answer is a reset: evicting every entry is cheaper than reading a long list. */
export const MAX_CHANGES = 1_000;

export type CredentialKind = 'node' | 'app';
/** What a change is about. `user`: disabled, renamed or deleted; `session`: ended; `signing_key`: made, active, retired or revoked. */
export type ChangedKind = CredentialKind | 'session' | 'user' | 'signing_key';

export interface Change {
  readonly kind: ChangedKind;
  readonly id: string;
}

/** What changed since the snapshot in a cursor. */
export interface Answer {
  /** Sent with the next poll. */
  readonly cursor: string;
  /** The changes since the cursor are unknown, or too many to list: everything that was read before is to be evicted. */
  readonly reset: boolean;
  readonly changes: readonly Change[];
}

/** With the transaction that committed it. */
export interface LoggedChange extends Change {
  readonly xid: bigint;
}

/** An answer of PostgreSQL. */
export interface LoggedAnswer extends Answer {
  readonly changes: readonly LoggedChange[];
  /** The highest transaction of which changes were purged. */
  readonly purged: bigint;
}

/** The row that {@link CHANGES_SINCE} returns. */
export interface FeedRow {
  readonly epoch: string;
  /** A pg_snapshot as text: xmin:xmax:xip,xip,… */
  readonly snapshot: string;
  readonly purged: string;
  /** Null as a kind or an id: anything may have changed. */
  readonly changes: readonly { readonly kind: ChangedKind | null; readonly id: string | null; readonly xid: string }[];
}

/**
 * Transaction ids can be compared only within one epoch: a promoted standby, a restart and a crash may assign them anew,
 * and a restored database has its own. The crash of one backend keeps the postmaster's start time and resets the
 * statistics. Needs no privilege (PostgreSQL 14 to 18).
 */
const EPOCH = `encode(sha256(convert_to(concat_ws('/', system_identifier, timeline_id,
  extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM stats_reset),
  (SELECT oid FROM pg_database WHERE datname = current_database()), 'credential_changes'::regclass::oid), 'UTF8')), 'hex')`;

/**
 * One statement, so that epoch, snapshot, purge mark and changes are consistent. Changes since snapshot S belong to
 * transactions that started after S or were open in it. Two branches, because the planner uses a sequential scan for an
 * OR; ordered, so that each branch is an index scan that stops at its limit. A dump that is restored into another cluster
 * brings transaction ids that this one has not assigned: they are ignored.
 */
export const CHANGES_SINCE: Statement = {
  name: 'credential_changes_since',
  text: `SELECT ${EPOCH} AS epoch, pg_current_snapshot()::text AS snapshot,
      COALESCE((SELECT purged::text FROM credential_change_purges
                WHERE purged < pg_snapshot_xmax(pg_current_snapshot())), '0') AS purged,
      (SELECT COALESCE(json_agg(json_build_object('kind', kind, 'id', credential_id, 'xid', xid::text)), '[]') FROM (
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid >= pg_snapshot_xmax($1::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
         ORDER BY xid LIMIT ${MAX_CHANGES + 1})
        UNION ALL
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) ORDER BY xid LIMIT ${MAX_CHANGES + 1})
      ) AS changed) AS changes
    FROM pg_control_system(), pg_control_checkpoint(), pg_stat_wal`,
};

/** @returns the parameter of {@link CHANGES_SINCE} */
export function parseSnapshot(cursor: string | undefined): string | null {
  return parseCursor(cursor)?.snapshot ?? null;
}

/**
 * The answer depends only on the cursor and the database: every replica gets the same one for the same cursor.
 * @param cursor of the answer before; undefined for the first poll
 */
export function toAnswer(cursor: string | undefined, row: FeedRow): LoggedAnswer {
  const next = `${row.epoch}/${shortenSnapshot(row.snapshot)}`;
  const since = parseCursor(cursor);
  const purged = BigInt(row.purged);
  const changes = row.changes.flatMap(({ kind, id, xid }) => (kind && id ? [{ kind, id, xid: BigInt(xid) }] : []));
  const isComplete = changes.length === row.changes.length && changes.length <= MAX_CHANGES;
  const continues = since?.epoch === row.epoch && !isPurged(since, purged);
  return isComplete && continues
    ? { cursor: next, reset: false, changes, purged }
    : { cursor: next, reset: true, changes: [], purged };
}
