import { toAnswer, parseSnapshot, type Answer, type Change } from '../../src/revocation/change-feed.js';
import { KeyCache } from '../../src/keys/key-cache.js';
import { RevocationLease } from '../../src/revocation/lease.js';
import { computeDigest } from '../../src/crypto/secret.js';

/** Three replicas, one database, one network, and no real time: everything happens in the order of a simulated clock. */

export const LEASE_MS = 60;
const POLL_MS = LEASE_MS / 3;
const TIMEOUT_MS = LEASE_MS;
/** The margin for clock drift that the wait adds. */
const WAIT_MS = LEASE_MS * 1.02 + 2;
const CREDENTIALS = 3;

export interface Step {
  readonly afterMs: number;
  readonly act:
    | 'validate'
    | 'revoke'
    | 'rotate'
    | 'abort'
    | 'cut'
    | 'mend'
    | 'pause'
    | 'resume'
    | 'restart'
    | 'purge'
    | 'jump'
    | 'fail over'
    | 'crash';
  readonly replica: number;
  readonly credential: number;
  /** The duration of what the step starts: a round trip to the database, or a transaction. */
  readonly outMs: number;
  readonly holdMs: number;
  readonly backMs: number;
}

/** Faulty variants of the protocol, which the simulation must refute. */
export type Mistake =
  | 'none'
  | 'no wait'
  | 'seq instead of snapshot'
  | 'horizon instead of snapshot'
  | 'epoch not compared'
  | 'epoch without the crash'
  | 'lease from the answer'
  | 'remembers stale rows'
  | 'purge unnoticed';

interface Key {
  readonly id: string;
  version: number;
  isRevoked: boolean;
}

interface Logged extends Change {
  readonly xid: bigint;
}

/** PostgreSQL as the protocol sees it: transactions, snapshots and the table of changes. */
export class Database {
  private nextXid = 100n;
  private latestCompleted = 99n;
  private latestCommitted = 99n;
  private readonly open = new Set<Logged>();
  private log: Logged[] = [];
  private purged = 0n;
  /** Restarts and failovers give another server; a crash of one backend keeps the postmaster. */
  private life = { server: 1, crashes: 0 };
  readonly keys: Key[] = Array.from({ length: CREDENTIALS }, (_, i) => ({
    id: `key-${i}`,
    version: 0,
    isRevoked: false,
  }));

  constructor(private readonly mistake: Mistake) {}

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

  answer(cursor: string | undefined): Answer {
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

/**
 * One process: the real lease and the real cache over simulated clocks. It keeps its cursor whatever happens to its
 * connection, unlike the feed, which starts anew: so the cursor alone has to be enough, as it is for a client of several replicas.
 */
class Replica {
  isCut = false;
  isPaused = false;
  lease!: RevocationLease;
  cache!: KeyCache<{ id: string }>;
  /** When it sent the last poll that was answered. */
  askedAtMs = -Infinity;
  /** Events that arrived while the process was stopped. */
  inbox: (() => void)[] = [];
  life = 0;
  wallOffsetMs = 0;

  constructor(
    private readonly world: World,
    private readonly rate: number,
  ) {
    this.start();
  }

  start(): void {
    const monotonic = (): number => this.world.nowMs * this.rate;
    const clocks = { monotonic, wall: () => monotonic() + this.wallOffsetMs };
    this.lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs: this.world.graceMs }, clocks);
    this.cache = new KeyCache('node', this.lease, 100);
    this.askedAtMs = -Infinity;
    this.life += 1;
  }

  /** Runs an event, or queues it while the process is stopped. */
  do(work: () => void): void {
    if (this.isPaused) this.inbox.push(work);
    else work();
  }
}

export class World {
  nowMs = 0;
  readonly violations: string[] = [];
  accepted = 0;
  fromMemory = 0;
  private readonly database: Database;
  private readonly replicas: Replica[];
  private readonly queue: { atMs: number; work: () => void }[] = [];
  /** By key and version: the time from which no new validation may accept it. */
  private readonly deadSince = new Map<string, number>();
  /** The present state of the network, set by the latest step. */
  private network = { outMs: 1, backMs: 1 };

  constructor(
    private readonly mistake: Mistake,
    readonly graceMs = 0,
  ) {
    this.database = new Database(mistake);
    this.replicas = [0.99, 1, 1.01].map((rate) => new Replica(this, rate));
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const replica of this.replicas) this.poll(replica, replica.life);
    let atMs = 5;
    for (const step of steps) this.at((atMs += step.afterMs), () => this.take(step));
    const endMs = atMs + 3 * LEASE_MS;
    for (let next = this.next(); next && next.atMs <= endMs; next = this.next()) {
      this.nowMs = next.atMs;
      next.work();
      // Lets the promises of the real code settle before the next event.
      await new Promise(setImmediate);
    }
  }

  private next() {
    if (this.queue.length === 0) return undefined;
    const first = this.queue.reduce((least, event, i) => (event.atMs < this.queue[least]!.atMs ? i : least), 0);
    return this.queue.splice(first, 1)[0];
  }

  private at(atMs: number, work: () => void): void {
    this.queue.push({ atMs, work });
  }

  private take(step: Step): void {
    this.network = step;
    const replica = this.replicas[step.replica]!;
    const key = this.database.keys[step.credential]!;
    const acts: Record<Step['act'], () => void> = {
      validate: () => replica.do(() => this.validate(replica, key, step)),
      revoke: () => replica.do(() => this.end(replica, key, step, () => (key.isRevoked = true))),
      rotate: () => replica.do(() => this.end(replica, key, step, () => (key.version += 1))),
      cut: () => void (replica.isCut = true),
      mend: () => void (replica.isCut = false),
      pause: () => void (replica.isPaused = true),
      resume: () => this.resume(replica),
      restart: () => {
        this.resume(replica);
        replica.start();
        this.poll(replica, replica.life);
      },
      purge: () => this.database.purge(step.holdMs),
      abort: () => this.database.abort(1 + (step.holdMs % 4)),
      'fail over': () => this.database.loseUnfinished('fail over'),
      crash: () => this.database.loseUnfinished('crash'),
      jump: () => void (replica.wallOffsetMs += (step.holdMs - 20) * 1e6),
    };
    acts[step.act]();
  }

  private resume(replica: Replica): void {
    replica.isPaused = false;
    for (const work of replica.inbox.splice(0)) work();
  }

  /** A poll and its response; a cut network swallows either. */
  private ask<Answer>(replica: Replica, outMs: number, backMs: number, read: () => Answer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const give = (): void => replica.do(() => reject(new Error('no answer')));
      this.at(this.nowMs + TIMEOUT_MS, give);
      this.at(this.nowMs + outMs, () => {
        if (replica.isCut) return;
        const answer = read();
        this.at(this.nowMs + backMs, () => {
          if (!replica.isCut) replica.do(() => resolve(answer));
        });
      });
    });
  }

  private poll(replica: Replica, life: number): void {
    if (life !== replica.life) return;
    const { lease } = replica;
    const { outMs, backMs } = this.network;
    const askedAtMs = this.nowMs;
    const ask = (cursor: string | undefined): Promise<Answer> =>
      this.ask(replica, outMs, backMs, () => this.database.answer(cursor));
    const renewed = this.mistake === 'lease from the answer' ? renewedFromAnswer(lease, ask) : lease.renew(ask);
    renewed
      .then(() => void (replica.askedAtMs = life === replica.life ? askedAtMs : replica.askedAtMs))
      .catch(() => undefined)
      .finally(() => {
        this.at(this.nowMs + POLL_MS, () => replica.do(() => this.poll(replica, life)));
      });
  }

  private validate(replica: Replica, key: Key, { outMs, backMs }: Step): void {
    const startedMs = this.nowMs;
    const { version } = key;
    const digest = computeDigest(`${key.id} ${version}`);
    const { cache } = replica;
    if (cache.recall(key.id, digest, new Date())) {
      this.fromMemory += 1;
      this.accept(replica, key.id, version, startedMs);
      return;
    }
    let ticket = cache.takeTicket();
    const read = (): boolean => !key.isRevoked && key.version === version;
    this.ask(replica, outMs, backMs, read).then(
      (isGood) => {
        if (!isGood) return;
        if (this.mistake === 'remembers stale rows') ticket = cache.takeTicket();
        cache.remember(key.id, { digest, identity: { id: key.id }, expiresAt: null }, ticket);
        this.accept(replica, key.id, version, startedMs);
      },
      () => undefined,
    );
  }

  /** With a grace, a disconnected replica may accept a revoked key; one that polled since then may not. */
  private accept(replica: Replica, id: string, version: number, startedMs: number): void {
    this.accepted += 1;
    const deadSince = this.deadSince.get(`${id} ${version}`);
    const mayNotKnow = this.graceMs > 0 && replica.askedAtMs < (deadSince ?? 0);
    if (deadSince !== undefined && startedMs >= deadSince && !mayNotKnow) {
      this.violations.push(`${id} ${version} accepted at ${this.nowMs}, dead since ${deadSince}`);
    }
  }

  /** A revoking call: a transaction, the wait for the lease on the replica's own clock, and the response. */
  private end(replica: Replica, key: Key, { outMs, holdMs, backMs }: Step, change: () => void): void {
    if (replica.isCut) return;
    this.at(this.nowMs + outMs, () => {
      const entry = this.database.begin(key.id);
      const { version } = key;
      this.at(this.nowMs + holdMs, () => {
        if (!this.database.commit(entry)) return;
        change();
        this.at(this.nowMs + backMs + (this.mistake === 'no wait' ? 0 : WAIT_MS), () => {
          const dead = `${key.id} ${version}`;
          this.deadSince.set(dead, Math.min(this.nowMs, this.deadSince.get(dead) ?? Infinity));
        });
      });
    });
  }
}

/** A faulty variant: the lease counted from the response. */
async function renewedFromAnswer(
  lease: RevocationLease,
  ask: (cursor: string | undefined) => Promise<Answer>,
): Promise<void> {
  const { cursor } = lease as unknown as { cursor: string | undefined };
  const answer = await ask(cursor);
  await lease.renew(() => Promise.resolve(answer));
}
