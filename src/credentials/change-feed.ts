import type { Statement } from '../database/database.js';

/** More changes than these are answered with a reset: evicting everything is cheaper than reading a long list. */
export const MAX_CHANGES = 1_000;

export type CredentialKind = 'node' | 'app';

export interface Change {
  readonly kind: CredentialKind;
  readonly id: string;
}

/** What the database says about everything that changed since the snapshot of a cursor. */
export interface Answer {
  /** Where the next question starts. */
  readonly cursor: string;
  /** The changes since the cursor are not known, or too many to list: nothing read before this answer may be used. */
  readonly reset: boolean;
  readonly changes: readonly Change[];
}

/** The row that {@link CHANGES_SINCE} returns. */
export interface Reading {
  readonly epoch: string;
  /** As PostgreSQL writes a pg_snapshot: xmin:xmax:xip,xip,… */
  readonly snapshot: string;
  /** The highest transaction whose changes were purged. */
  readonly purged: string;
  /** Null as a kind or an id: any key may have changed. */
  readonly changes: readonly { readonly kind: CredentialKind | null; readonly id: string | null }[];
}

/**
 * Transaction ids mean something only within one life of one server: a promoted standby, a restart and a crash may
 * assign them anew, a restored database has others. The statistics are reset by a crash of one backend, which restarts
 * PostgreSQL under the same postmaster. All of it can be read without a privilege (PostgreSQL 14 to 18).
 */
const EPOCH = `encode(sha256(convert_to(concat_ws('/', system_identifier, timeline_id,
  extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM stats_reset),
  (SELECT oid FROM pg_database WHERE datname = current_database()), 'credential_changes'::regclass::oid), 'UTF8')), 'hex')`;

/**
 * One statement, so that epoch, snapshot, purge mark and changes are of one snapshot. Changes since snapshot S are those
 * of transactions that started after S or were open in it. Two branches, because the planner answers an OR with a
 * sequential scan; ordered, so that each one is read from the index and stops at its limit.
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
export function snapshotOf(cursor: string | undefined): string | null {
  return parseCursor(cursor)?.snapshot ?? null;
}

/**
 * Whether to reset depends on the cursor and the database alone, so that any replica gives the same answer to it.
 * @param cursor of an earlier answer; undefined: nothing was read yet
 */
export function answerTo(cursor: string | undefined, reading: Reading): Answer {
  const next = `${reading.epoch}/${reading.snapshot}`;
  const since = parseCursor(cursor);
  const changes = reading.changes.filter((change): change is Change => change.kind !== null && change.id !== null);
  const isComplete = changes.length === reading.changes.length && changes.length <= MAX_CHANGES;
  const continues = since?.epoch === reading.epoch && !isPurged(since, BigInt(reading.purged));
  return isComplete && continues ? { cursor: next, reset: false, changes } : { cursor: next, reset: true, changes: [] };
}

/** Whether changes of a transaction that the snapshot does not contain may have been purged. */
function isPurged({ xmax, xip }: Cursor, purged: bigint): boolean {
  return purged >= xmax || xip.some((xid) => purged >= xid);
}

function parseCursor(cursor: string | undefined): Cursor | undefined {
  const { epoch, snapshot, xmax, xip } = CURSOR.exec(cursor ?? '')?.groups ?? {};
  if (epoch === undefined || snapshot === undefined || xmax === undefined) return undefined;
  return { epoch, snapshot, xmax: BigInt(xmax), xip: xip ? xip.split(',').map(BigInt) : [] };
}
