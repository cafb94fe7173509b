import type { Statement } from '../../database/database.js';

/** Beyond this the answer is a reset: evicting every key is cheaper than reading a long list. */
export const MAX_CHANGES = 1_000;

export type CredentialKind = 'node' | 'app';

export interface Change {
  readonly kind: CredentialKind;
  readonly id: string;
}

/** The keys that changed since the snapshot in a cursor. */
export interface Answer {
  /** Sent with the next poll. */
  readonly cursor: string;
  /** The changes since the cursor are unknown, or too many to list: every key that was read before is to be evicted. */
  readonly reset: boolean;
  readonly changes: readonly Change[];
}

/** The row that {@link CHANGES_SINCE} returns. */
export interface FeedRow {
  readonly epoch: string;
  /** A pg_snapshot as text: xmin:xmax:xip,xip,… */
  readonly snapshot: string;
  /** The highest transaction of which changes were purged. */
  readonly purged: string;
  /** Null as a kind or an id: any key may have changed. */
  readonly changes: readonly { readonly kind: CredentialKind | null; readonly id: string | null }[];
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
 * OR; ordered, so that each branch is an index scan that stops at its limit.
 */
export const CHANGES_SINCE: Statement = {
  name: 'credential_changes_since',
  text: `SELECT ${EPOCH} AS epoch, pg_current_snapshot()::text AS snapshot,
      (SELECT purged::text FROM credential_change_purges) AS purged,
      (SELECT COALESCE(json_agg(json_build_object('kind', kind, 'id', credential_id)), '[]') FROM (
        (SELECT kind, credential_id FROM credential_changes
         WHERE xid >= pg_snapshot_xmax($1::pg_snapshot) ORDER BY xid LIMIT ${MAX_CHANGES + 1})
        UNION ALL
        (SELECT kind, credential_id FROM credential_changes
         WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) ORDER BY xid LIMIT ${MAX_CHANGES + 1})
      ) AS changed) AS changes
    FROM pg_control_system(), pg_control_checkpoint(), pg_stat_wal`,
};

const CURSOR = /^(?<epoch>[0-9a-f]{64})\/(?<snapshot>\d+:(?<xmax>\d+):(?<xip>(\d+(,\d+)*)?))$/;

interface Cursor {
  readonly epoch: string;
  readonly snapshot: string;
  readonly xmax: bigint;
  readonly xip: readonly bigint[];
}

/** @returns the parameter of {@link CHANGES_SINCE} */
export function parseSnapshot(cursor: string | undefined): string | null {
  return parseCursor(cursor)?.snapshot ?? null;
}

/**
 * The answer depends only on the cursor and the database: every replica gets the same one for the same cursor.
 * @param cursor of the answer before; undefined for the first poll
 */
export function toAnswer(cursor: string | undefined, row: FeedRow): Answer {
  const next = `${row.epoch}/${row.snapshot}`;
  const since = parseCursor(cursor);
  const changes = row.changes.filter((change): change is Change => change.kind !== null && change.id !== null);
  const isComplete = changes.length === row.changes.length && changes.length <= MAX_CHANGES;
  const continues = since?.epoch === row.epoch && !isPurged(since, BigInt(row.purged));
  return isComplete && continues ? { cursor: next, reset: false, changes } : { cursor: next, reset: true, changes: [] };
}

/** Whether changes that the snapshot does not show may have been purged. */
function isPurged({ xmax, xip }: Cursor, purged: bigint): boolean {
  return purged >= xmax || xip.some((xid) => purged >= xid);
}

function parseCursor(cursor: string | undefined): Cursor | undefined {
  const { epoch, snapshot, xmax, xip } = CURSOR.exec(cursor ?? '')?.groups ?? {};
  if (epoch === undefined || snapshot === undefined || xmax === undefined) return undefined;
  return { epoch, snapshot, xmax: BigInt(xmax), xip: xip ? xip.split(',').map(BigInt) : [] };
}
