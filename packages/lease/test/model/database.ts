import { parseSnapshot, toAnswer, type Change, type LoggedAnswer } from '../../src/change-feed.js';
import type { Mistake } from './mistakes.js';

interface Logged extends Change {
  readonly xid: bigint;
}

/** PostgreSQL as the protocol sees it: transactions, snapshots, the table of changes and the announced promises. */
export class Database {
  private nextXid = 100n;
  private latestCompleted = 99n;
  private latestCommitted = 99n;
  private readonly open = new Set<Logged>();
  private log: Logged[] = [];
  private purged = 0n;
  /** Restarts and failovers give another server; a crash of one backend keeps the postmaster. */
  private life = { server: 1, crashes: 0 };
  /** `replica_leases`: each row with the moment at which it was last seen. */
  private readonly promises = new Map<string, { readonly promiseMs: number; readonly seenAtMs: number }>();

  constructor(
    private readonly mistake: Mistake,
    private readonly now: () => number,
  ) {}

  begin(id: string, kind: Logged['kind'] = 'node'): Logged {
    const transaction = { xid: this.nextXid++, kind, id };
    this.open.add(transaction);
    return transaction;
  }

  /** @returns false when the server that it was open on is gone */
  commit(transaction: Logged): boolean {
    if (!this.open.delete(transaction)) return false;
    this.log.push(transaction);
    this.complete(transaction.xid);
    if (transaction.xid > this.latestCommitted) this.latestCommitted = transaction.xid;
    return true;
  }

  /** As {@link commit}, without the change. */
  forget(transaction: Logged): boolean {
    if (!this.open.delete(transaction)) return false;
    this.complete(transaction.xid);
    return true;
  }

  /** Transactions that took an id and changed no key. */
  abort(count: number): void {
    this.nextXid += BigInt(count);
    this.complete(this.nextXid - 1n);
  }

  /** Committed changes survive. The ids of open and aborted transactions are assigned again. */
  loseUnfinished(what: 'fail over' | 'crash'): void {
    this.life =
      what === 'crash'
        ? { ...this.life, crashes: this.life.crashes + 1 }
        : { server: this.life.server + 1, crashes: 0 };
    this.open.clear();
    this.latestCompleted = this.latestCommitted;
    this.nextXid = this.latestCommitted + 1n;
  }

  /** Purges as early as possible: every committed change is old enough. */
  purge(most: number): void {
    const gone = this.log.filter(({ xid }) => xid < this.xmin).slice(0, most);
    this.log = this.log.filter((entry) => !gone.includes(entry));
    for (const { xid } of gone) if (xid > this.purged) this.purged = xid;
  }

  answer(cursor: string | undefined): LoggedAnswer {
    const snapshot = this.writtenSnapshot();
    const since = parseSnapshot(cursor)?.split(':');
    const xip = since?.[2] ? since[2].split(',').map(BigInt) : [];
    const isNew = ({ xid }: Logged) => since !== undefined && (xid >= BigInt(since[1]!) || xip.includes(xid));
    const reading = {
      epoch: this.epoch,
      snapshot,
      purged: this.mistake === 'purge unnoticed' ? '0' : String(this.purged),
      changes: this.log.filter(isNew).map(({ xid, ...change }) => ({ ...change, xid: String(xid) })),
    };
    const answer = toAnswer(cursor, reading);
    // The previous protocol noticed a horizon that goes back, but not one that was passed again.
    const wentBack = this.mistake === 'horizon instead of snapshot' && since && this.xmin < BigInt(since[0]!);
    return wentBack ? { ...answer, reset: true } : answer;
  }

  announce(id: string, promiseMs: number): void {
    this.promises.set(id, { promiseMs, seenAtMs: this.now() });
  }

  /** The longest promise of the processes that were seen within the last minute. */
  readLongestPromiseMs(): number {
    const seen = [...this.promises.values()].filter(({ seenAtMs }) => seenAtMs > this.now() - 60_000);
    return Math.max(0, ...seen.map(({ promiseMs }) => promiseMs));
  }

  private complete(xid: bigint): void {
    if (xid > this.latestCompleted) this.latestCompleted = xid;
  }

  private get xmin(): bigint {
    return [...this.open].reduce((least, { xid }) => (xid < least ? xid : least), this.latestCompleted + 1n);
  }

  private writtenSnapshot(): string {
    const xmax = this.latestCompleted + 1n;
    if (this.mistake === 'horizon instead of snapshot') return `${this.xmin}:${this.xmin}:`;
    if (this.mistake === 'seq instead of snapshot') return `${this.latestCommitted + 1n}:${this.latestCommitted + 1n}:`;
    const xip = [...this.open].map(({ xid }) => xid).filter((xid) => xid < xmax);
    return `${this.xmin}:${xmax}:${xip.join(',')}`;
  }

  private get epoch(): string {
    const isLeftOut = this.mistake === 'epoch not compared' || this.mistake === 'horizon instead of snapshot';
    const server = isLeftOut ? 0 : this.life.server;
    const crashes = isLeftOut || this.mistake === 'epoch without the crash' ? 0 : this.life.crashes;
    return `${server}f${crashes}`.padStart(64, '0');
  }
}
