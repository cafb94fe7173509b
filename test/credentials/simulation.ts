import { CredentialMemory } from '../../src/credentials/credential-memory.js';
import { RevocationLease, type Change, type Changes } from '../../src/credentials/revocation-lease.js';
import { digestOf } from '../../src/crypto/secret.js';

/** Three replicas, one database, one network, and no real time: everything happens in the order of a simulated clock. */

export const LEASE_MS = 60;
const POLL_MS = LEASE_MS / 3;
const TIMEOUT_MS = LEASE_MS;
/** What waitOut() adds, for clocks that do not run equally fast. */
const WAIT_MS = LEASE_MS * 1.02 + 2;
const CREDENTIALS = 3;

export interface Step {
  readonly afterMs: number;
  readonly act: 'validate' | 'revoke' | 'rotate' | 'cut' | 'mend' | 'pause' | 'resume' | 'restart' | 'purge' | 'jump';
  readonly replica: number;
  readonly credential: number;
  /** How long what the step starts takes: a way to the database and back, or a transaction. */
  readonly outMs: number;
  readonly holdMs: number;
  readonly backMs: number;
}

/** Ways in which the protocol could be wrong, to prove that the simulation would find out. */
export type Mistake =
  'none' | 'no wait' | 'seq instead of horizon' | 'lease from the answer' | 'remembers stale rows' | 'purge unnoticed';

interface Key {
  readonly id: string;
  version: number;
  isRevoked: boolean;
}

interface Logged extends Change {
  readonly xid: bigint;
}

/** PostgreSQL, as far as the protocol sees it: transactions, snapshots and the record of changes. */
class Database {
  private nextXid = 100n;
  private seq = 0;
  private readonly open = new Set<bigint>();
  /** The last one that an earlier purge left. */
  private log: Logged[] = [{ xid: 99n, seq: '0', credentialId: null }];
  readonly keys: Key[] = Array.from({ length: CREDENTIALS }, (_, i) => ({
    id: `key-${i}`,
    version: 0,
    isRevoked: false,
  }));

  begin(credentialId: string | null): Logged {
    const xid = this.nextXid++;
    this.open.add(xid);
    return { xid, seq: String(++this.seq), credentialId };
  }

  commit(entry: Logged): void {
    this.open.delete(entry.xid);
    this.log.push(entry);
  }

  /** As early as can be: what was committed just now is old enough. */
  purge(most: number): void {
    const finished = this.log.filter(({ xid }) => xid < this.horizon).sort((one, other) => Number(one.xid - other.xid));
    const gone = new Set(finished.slice(0, -1).slice(0, most));
    this.log = this.log.filter((entry) => !gone.has(entry));
  }

  private get horizon(): bigint {
    return [...this.open].reduce((least, xid) => (xid < least ? xid : least), this.nextXid);
  }

  changes(since: bigint | undefined, mistake: Mistake): Changes {
    if (mistake === 'seq instead of horizon') {
      const last = this.log.reduce((most, { seq }) => (BigInt(seq) > most ? BigInt(seq) : most), 0n);
      return { horizon: last, changes: this.log.filter(({ seq }) => since !== undefined && BigInt(seq) > since) };
    }
    const { horizon } = this;
    const changes = this.log.filter(({ xid }) => since !== undefined && xid >= since);
    if (mistake === 'purge unnoticed') return { horizon, changes };
    const oldest = this.log.reduce<bigint | undefined>(
      (least, { xid }) => (least === undefined || xid < least ? xid : least),
      undefined,
    );
    return { horizon, changes, oldest };
  }
}

/** One process: the real lease and the real memory over simulated clocks. */
class Replica {
  isCut = false;
  isPaused = false;
  lease!: RevocationLease;
  memory!: CredentialMemory<{ id: string }>;
  /** What came in while the process was stopped. */
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
    this.lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs: 0 }, clocks);
    this.memory = new CredentialMemory(this.lease, 100);
    this.life += 1;
  }

  /** Runs when the process runs: a stopped one does it first of all once it goes on. */
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
  private readonly database = new Database();
  private readonly replicas: Replica[];
  private readonly queue: { atMs: number; work: () => void }[] = [];
  /** By key and version: since when no validation that starts may accept it. */
  private readonly deadSince = new Map<string, number>();
  /** What the network is like now: as the latest step says. */
  private network = { outMs: 1, backMs: 1 };

  constructor(private readonly mistake: Mistake) {
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
      // Whatever the real code awaits goes on before the next event.
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
      // With the other mistake it would be found for this reason.
      purge: () => this.mistake !== 'seq instead of horizon' && this.database.purge(step.holdMs),
      jump: () => void (replica.wallOffsetMs += (step.holdMs - 20) * 1e6),
    };
    acts[step.act]();
  }

  private resume(replica: Replica): void {
    replica.isPaused = false;
    for (const work of replica.inbox.splice(0)) work();
  }

  /** A question to the database and its answer; a cut network swallows either. */
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
    const ask = (since: bigint | undefined): Promise<Changes> =>
      this.ask(replica, outMs, backMs, () => this.database.changes(since, this.mistake));
    const renewed = this.mistake === 'lease from the answer' ? renewedFromAnswer(lease, ask) : lease.renew(ask);
    renewed
      .catch(() => undefined)
      .finally(() => {
        this.at(this.nowMs + POLL_MS, () => replica.do(() => this.poll(replica, life)));
      });
  }

  private validate(replica: Replica, key: Key, { outMs, backMs }: Step): void {
    const startedMs = this.nowMs;
    const { version } = key;
    const digest = digestOf(`${key.id} ${version}`);
    const { memory } = replica;
    if (memory.recall(key.id, digest, new Date())) {
      this.fromMemory += 1;
      this.accept(key.id, version, startedMs);
      return;
    }
    let ticket = memory.ticket();
    const read = (): boolean => !key.isRevoked && key.version === version;
    this.ask(replica, outMs, backMs, read).then(
      (isGood) => {
        if (!isGood) return;
        if (this.mistake === 'remembers stale rows') ticket = memory.ticket();
        memory.remember(key.id, { digest, identity: { id: key.id }, expiresAt: null }, ticket);
        this.accept(key.id, version, startedMs);
      },
      () => undefined,
    );
  }

  private accept(id: string, version: number, startedMs: number): void {
    this.accepted += 1;
    const deadSince = this.deadSince.get(`${id} ${version}`);
    if (deadSince !== undefined && startedMs >= deadSince) {
      this.violations.push(`${id} ${version} accepted at ${this.nowMs}, dead since ${deadSince}`);
    }
  }

  /** An administrator's call: a transaction, the lease waited out on the replica's own clock, and then the answer. */
  private end(replica: Replica, key: Key, { outMs, holdMs, backMs }: Step, change: () => void): void {
    if (replica.isCut) return;
    this.at(this.nowMs + outMs, () => {
      const entry = this.database.begin(key.id);
      const { version } = key;
      this.at(this.nowMs + holdMs, () => {
        change();
        this.database.commit(entry);
        this.at(this.nowMs + backMs + (this.mistake === 'no wait' ? 0 : WAIT_MS), () => {
          const dead = `${key.id} ${version}`;
          this.deadSince.set(dead, Math.min(this.nowMs, this.deadSince.get(dead) ?? Infinity));
        });
      });
    });
  }
}

/** What would be wrong: the term counted from the answer. */
async function renewedFromAnswer(
  lease: RevocationLease,
  ask: (since: bigint | undefined) => Promise<Changes>,
): Promise<void> {
  const { horizon } = lease as unknown as { horizon: bigint | undefined };
  const answer = await ask(horizon);
  await lease.renew(() => Promise.resolve(answer));
}
