// The feed of changes: what changed since a cursor, read from PostgreSQL or from the log that each replica keeps of its
// own answers. A cursor is an epoch and a whole snapshot of PostgreSQL, as text; the changes since a cursor are those
// of transactions that its snapshot does not show. Invariant: consecutive answers bring each commit at least once, or a
// reset. docs/revocation-lease.md has the proof; the model in ../test/ finds each planted mistake.

/** Long enough for a snapshot with 200 open transactions. */
export const MAX_CURSOR_LENGTH = 4_096;
const EPOCH_LENGTH = 64;
/** Length of the largest 64-bit id in decimal. */
const MAX_XID_LENGTH = 20;
const CURSOR = /^(?<epoch>[0-9a-f]{64})\/(?<snapshot>\d+:(?<xmax>\d+):(?<xip>(\d+(,\d+)*)?))$/;

interface Cursor {
  readonly epoch: string;
  /** A pg_snapshot as text. */
  readonly snapshot: string;
  /** The first transaction that had not started. */
  readonly xmax: bigint;
  /** Transactions that were open. */
  readonly xip: ReadonlySet<bigint>;
}

function parseCursor(cursor: string | undefined): Cursor | undefined {
  if (cursor === undefined || cursor.length > MAX_CURSOR_LENGTH) return undefined;
  const { epoch, snapshot, xmax, xip } = CURSOR.exec(cursor)?.groups ?? {};
  if (epoch === undefined || snapshot === undefined || xmax === undefined) return undefined;
  const ids = xip ? xip.split(',').map(BigInt) : [];
  const isReadable = isSnapshot(snapshot, BigInt(xmax), ids);
  return isReadable ? { epoch, snapshot, xmax: BigInt(xmax), xip: new Set(ids) } : undefined;
}

/** Whether PostgreSQL accepts the snapshot: xmin ≤ each xip < xmax, ascending, in 63 bits. */
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
 * Cuts a snapshot at the first open transaction that does not fit. The result is older, so that no change is missed.
 */
function shortenSnapshot(snapshot: string): string {
  const maxLength = MAX_CURSOR_LENGTH - EPOCH_LENGTH - 1;
  if (snapshot.length <= maxLength) return snapshot;
  const [xmin = '', , xip = ''] = snapshot.split(':');
  const kept: string[] = [];
  let length = xmin.length + 2;
  for (const xid of xip.split(',')) {
    // The first dropped id becomes the new xmax, and needs room too.
    if (length + xid.length + 1 + MAX_XID_LENGTH > maxLength) return `${xmin}:${xid}:${kept.join(',')}`;
    kept.push(xid);
    length += xid.length + 1;
  }
  return snapshot;
}

/** Whether changes that the snapshot does not show may have been purged. */
function isPurged({ xmax, xip }: Cursor, purged: bigint): boolean {
  return purged >= xmax || [...xip].some((xid) => purged >= xid);
}

/** Whether `other` shows every transaction that `one` shows. Both must be of the same epoch. */
function isNotNewer(one: Cursor, other: Cursor): boolean {
  return one.xmax <= other.xmax && [...other.xip].every((xid) => xid >= one.xmax || one.xip.has(xid));
}

/** Whether a change of this transaction is new to the holder of the cursor. */
function isSince({ xmax, xip }: Cursor, xid: bigint): boolean {
  return xid >= xmax || xip.has(xid);
}

/** With more changes the answer is a reset, because evicting every entry is cheaper than reading a long list. */
export const MAX_CHANGES = 1_000;

export type CredentialKind = 'node' | 'app';
/**
 * What a change is about. `user`: disabled, renamed or deleted; `session`: ended; `signing_key`: made, active, retired
 * or revoked.
 */
export type ChangedKind = CredentialKind | 'session' | 'user' | 'signing_key';

export interface Change {
  readonly kind: ChangedKind;
  readonly id: string;
}

export interface Answer {
  readonly cursor: string;
  /** Whether everything that was read before must be evicted, because the changes are unknown or too many to list. */
  readonly reset: boolean;
  readonly changes: readonly Change[];
}

interface LoggedChange extends Change {
  readonly xid: bigint;
}

export interface LoggedAnswer extends Answer {
  readonly changes: readonly LoggedChange[];
  /** The highest transaction of which changes were purged. */
  readonly purged: bigint;
}

export interface FeedRow {
  readonly epoch: string;
  /** A pg_snapshot as text: xmin:xmax:xip,xip,… */
  readonly snapshot: string;
  readonly purged: string;
  /** A null kind or id means that anything may have changed. */
  readonly changes: readonly { readonly kind: ChangedKind | null; readonly id: string | null; readonly xid: string }[];
}

/** @returns the parameter of the statement that reads PostgreSQL */
export function parseSnapshot(cursor: string | undefined): string | null {
  return parseCursor(cursor)?.snapshot ?? null;
}

/** Depends only on the cursor and the database, so that every replica gives the same answer. */
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

/** Limits the log to a few megabytes. */
const MAX_LOGGED = 10_000;
/** An honest verifier presents one of the last few cursors of some replica. */
const MAX_REPEATED_ANSWERS = 100;

/** The changes between two polls of the feed that found some. */
interface Batch {
  readonly since: Cursor;
  readonly changes: readonly LoggedChange[];
}

/** The latest answers of this replica's feed, from which it answers the polls of verifiers (docs/decisions/0044). */
export class ChangeLog {
  private batches: Batch[] = [];
  private size = 0;
  /** The snapshot since which the log has every change. */
  private start: Cursor | undefined;
  private head: Cursor | undefined;
  private purged = 0n;
  /** The answers since the last poll of the feed, by cursor, because thousands of verifiers ask with the same few. */
  private readonly answers = new Map<string | undefined, Answer | undefined>();

  /** To be called with each answer of the feed, in their order. */
  append({ cursor, reset, changes, purged }: LoggedAnswer): void {
    const previous = this.head;
    this.answers.clear();
    this.head = parseCursor(cursor);
    this.purged = purged;
    if (reset || !previous || !this.start) {
      this.batches = [];
      this.size = 0;
      this.start = this.head;
      return;
    }
    if (changes.length === 0) return;
    this.batches.push({ since: previous, changes });
    this.size += changes.length;
    while (this.size > MAX_LOGGED) {
      this.size -= this.batches.shift()?.changes.length ?? 0;
      this.start = this.batches[0]?.since ?? this.head;
    }
  }

  /** @returns undefined when the log does not reach back to the cursor, and PostgreSQL must be read */
  answer(cursor: string | undefined): Answer | undefined {
    if (this.answers.has(cursor)) return this.answers.get(cursor);
    const answer = this.computeAnswer(cursor);
    const isBounded = this.answers.size < MAX_REPEATED_ANSWERS && (cursor?.length ?? 0) <= MAX_CURSOR_LENGTH;
    if (isBounded) this.answers.set(cursor, answer);
    return answer;
  }

  private computeAnswer(given: string | undefined): Answer | undefined {
    const { head, start, purged } = this;
    if (!head || !start) return undefined;
    const cursor = `${head.epoch}/${head.snapshot}`;
    const since = parseCursor(given);
    const reset: Answer = { cursor, reset: true, changes: [] };
    if (since?.epoch !== head.epoch || isPurged(since, purged)) return reset;
    if (!isNotNewer(start, since)) return undefined;
    const changes = this.collectSince(since);
    return changes.length > MAX_CHANGES ? reset : { cursor, reset: false, changes };
  }

  /** Collects from the newest batch backward, until the cursor shows everything earlier. */
  private collectSince(since: Cursor): LoggedChange[] {
    const found: LoggedChange[] = [];
    for (const { since: batchSince, changes } of this.batches.toReversed()) {
      found.push(...changes.filter(({ xid }) => isSince(since, xid)));
      if (found.length > MAX_CHANGES || isNotNewer(batchSince, since)) break;
    }
    return found;
  }
}
