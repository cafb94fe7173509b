// Cursors of the feed of changes: an epoch and a whole snapshot of PostgreSQL, as text. The changes since a cursor are those
// of transactions that its snapshot does not show.

/** Enough for 200 open transactions. */
export const MAX_CURSOR_LENGTH = 4_096;
const EPOCH_LENGTH = 64;
/** Of a 64-bit id in decimal. */
const MAX_XID_LENGTH = 20;
const CURSOR = /^(?<epoch>[0-9a-f]{64})\/(?<snapshot>\d+:(?<xmax>\d+):(?<xip>(\d+(,\d+)*)?))$/;

export interface Cursor {
  readonly epoch: string;
  /** A pg_snapshot as text. */
  readonly snapshot: string;
  /** The first transaction that had not started. */
  readonly xmax: bigint;
  /** Transactions that were open. */
  readonly xip: ReadonlySet<bigint>;
}

/** @returns undefined when it is absent, or was not created by this service */
export function parseCursor(cursor: string | undefined): Cursor | undefined {
  if (cursor === undefined || cursor.length > MAX_CURSOR_LENGTH) return undefined;
  const { epoch, snapshot, xmax, xip } = CURSOR.exec(cursor)?.groups ?? {};
  if (epoch === undefined || snapshot === undefined || xmax === undefined) return undefined;
  const ids = xip ? xip.split(',').map(BigInt) : [];
  const isReadable = isSnapshot(snapshot, BigInt(xmax), ids);
  return isReadable ? { epoch, snapshot, xmax: BigInt(xmax), xip: new Set(ids) } : undefined;
}

/** Whether PostgreSQL would read it: xmin ≤ each xip < xmax, ascending, in 63 bits. */
function isSnapshot(snapshot: string, xmax: bigint, xip: readonly bigint[]): boolean {
  const xmin = BigInt(snapshot.slice(0, snapshot.indexOf(':')));
  const isAscending = xip.every((xid, index) => xid >= (xip[index - 1] ?? xmin) && xid < xmax);
  return isXid(xmin) && isXid(xmax) && xmin <= xmax && isAscending;
}

/** PostgreSQL never assigns an id whose lower half is 0. */
function isXid(xid: bigint): boolean {
  return xid < 2n ** 63n && (xid & 0xffff_ffffn) !== 0n;
}

/**
 * Cuts a snapshot with many open transactions at the first one that does not fit. The result is older, so that changes
 * are reported twice and none is missed.
 */
export function shortenSnapshot(snapshot: string): string {
  const maxLength = MAX_CURSOR_LENGTH - EPOCH_LENGTH - 1;
  if (snapshot.length <= maxLength) return snapshot;
  const [xmin = '', , xip = ''] = snapshot.split(':');
  const kept: string[] = [];
  let length = xmin.length + 2;
  for (const xid of xip.split(',')) {
    // The first one that is dropped becomes the new xmax, and needs room too.
    if (length + xid.length + 1 + MAX_XID_LENGTH > maxLength) return `${xmin}:${xid}:${kept.join(',')}`;
    kept.push(xid);
    length += xid.length + 1;
  }
  return snapshot;
}

/** Whether changes that the snapshot does not show may have been purged. */
export function isPurged({ xmax, xip }: Cursor, purged: bigint): boolean {
  return purged >= xmax || [...xip].some((xid) => purged >= xid);
}

/** Whether every transaction that `one` shows is shown by `other` too. Both are of the same epoch. */
export function isNotNewer(one: Cursor, other: Cursor): boolean {
  return one.xmax <= other.xmax && [...other.xip].every((xid) => xid >= one.xmax || one.xip.has(xid));
}

/** Whether the change of a transaction is new to the holder of the cursor. */
export function isSince({ xmax, xip }: Cursor, xid: bigint): boolean {
  return xid >= xmax || xip.has(xid);
}
