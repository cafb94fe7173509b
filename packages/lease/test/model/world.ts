import { computeWaitMs } from '../../../../src/domain/revocation/propagation.js';
import { createCredentials, USER, type Credential } from './credentials.js';
import { Database } from './database.js';
import { LEASE_MS, type Step } from './histories.js';
import type { Mistake } from './mistakes.js';
import { Replica } from './replica.js';
import { VerifierProcess } from './verifier-process.js';

/** Longer than an announcement counts. */
const STANDSTILL_MS = 61_000;

/** What differs between histories besides their steps. */
export interface Setting {
  readonly graceMs: number;
  /** The leases of the three replicas. */
  readonly leasesMs: readonly number[];
}

const DEFAULT_SETTING: Setting = { graceMs: 0, leasesMs: [LEASE_MS, LEASE_MS, LEASE_MS] };

/**
 * Two verifiers, a load balancer, three replicas and PostgreSQL, in simulated time: the real verifiers, leases,
 * announcements and logs. A credential counts as dead when the call that ended it has answered.
 */
export class World {
  nowMs = 0;
  accepted = 0;
  readonly violations: string[] = [];
  readonly credentials = createCredentials();
  readonly graceMs: number;
  readonly database: Database;
  readonly replicas: readonly Replica[];
  readonly verifiers = [1.01, 0.99].map((rate) => new VerifierProcess(this, rate));
  network = { outMs: 5, backMs: 5 };
  private readonly queue: { readonly atMs: number; readonly work: () => void }[] = [];

  constructor(
    readonly mistake: Mistake,
    { graceMs, leasesMs }: Setting = DEFAULT_SETTING,
  ) {
    this.graceMs = graceMs;
    this.database = new Database(mistake, () => this.nowMs);
    const rates = [0.99, 1, 1.01];
    this.replicas = leasesMs.map((leaseMs, index) => new Replica(this, rates[index]!, leaseMs));
  }

  at(afterMs: number, work: () => void): void {
    this.queue.push({ atMs: this.nowMs + afterMs, work });
  }

  liveIds(): ReadonlySet<string> {
    return new Set(this.credentials.filter((credential) => this.isLive(credential)).map(({ id }) => id));
  }

  isLive({ hasEnded, expiresAtMs }: Credential): boolean {
    return !hasEnded && this.nowMs < expiresAtMs;
  }

  /** Whole seconds, rounded down. */
  getSecondsLeft({ expiresAtMs }: Credential): number {
    return Math.max(0, Math.floor(Math.min(60_000, expiresAtMs - this.nowMs) / 1_000));
  }

  /** A credential was accepted at a moment. */
  judge({ id, deadSince }: Credential, atMs: number, isExcused = false): void {
    this.accepted += 1;
    if (atMs >= deadSince && !isExcused) this.violations.push(`${id} accepted at ${atMs}, dead since ${deadSince}`);
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const replica of this.replicas) replica.start();
    for (const verifier of this.verifiers) verifier.start();
    let endMs = Infinity;
    const follow = (index: number): void => {
      const step = steps[index];
      if (!step) {
        endMs = this.nowMs + 2 * LEASE_MS;
        return;
      }
      this.at(step.afterMs, () => {
        this.take(step);
        follow(index + 1);
      });
    };
    this.at(50, () => follow(0));
    for (let next = this.next(); next && next.atMs <= endMs; next = this.next()) {
      // After a standstill, what was due meanwhile happens late.
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.work();
      await settle();
    }
  }

  private next() {
    if (this.queue.length === 0) return undefined;
    const first = this.queue.reduce((least, event, i) => (event.atMs < this.queue[least]!.atMs ? i : least), 0);
    return this.queue.splice(first, 1)[0];
  }

  private take(step: Step): void {
    this.network = step;
    const verifier = this.verifiers[step.verifier]!;
    const replica = this.replicas[step.replica]!;
    const credential = this.credentials[step.credential]!;
    const acts: Record<Step['act'], () => void> = {
      present: () => verifier.do(() => void verifier.present(credential)),
      'present to replica': () => {
        // Replicas cache keys only.
        if (credential.kind === 'node' && credential.expiresAtMs === Infinity)
          replica.do(() => void replica.present(credential));
      },
      end: () => this.end(replica, [credential], credential.kind, credential.id, step),
      disable: () => this.end(replica, this.findSessions(), 'user', USER, step),
      route: () => void (verifier.route = step.replica),
      'cut verifier': () => void (verifier.isCut = !verifier.isCut),
      'cut replica': () => void (replica.isCut = !replica.isCut),
      'pause verifier': () => verifier.togglePause(),
      'suspend verifier': () => verifier.toggleSuspend(),
      'pause replica': () => replica.togglePause(),
      'restart replica': () => replica.start(),
      prune: () => replica.prune(),
      jump: () => verifier.jump((step.holdMs - 100) * 1e5),
      'fail over': () => this.database.loseUnfinished('fail over'),
      crash: () => this.database.loseUnfinished('crash'),
      abort: () => this.database.abort(1 + (step.holdMs % 4)),
      purge: () => this.database.purge(step.holdMs),
      // Every process and the network are frozen, and PostgreSQL's clock goes on.
      standstill: () => void (this.nowMs += STANDSTILL_MS),
    };
    acts[step.act]();
  }

  private findSessions(): Credential[] {
    return this.credentials.filter(({ kind }) => kind === 'session');
  }

  /** A call that ends credentials: a transaction, the announcements, the wait, and the answer. */
  private end(
    replica: Replica,
    credentials: readonly Credential[],
    kind: 'node' | 'session' | 'user',
    id: string,
    { outMs, holdMs, backMs }: Step,
  ): void {
    if (replica.isCut) return;
    const { database, mistake } = this;
    const die = (): void => {
      for (const credential of credentials) credential.deadSince = Math.min(this.nowMs, credential.deadSince);
    };
    const answerAfter = (promiseMs: number): void => {
      // By the clock of the replica that was called.
      const waitMs = mistake === 'no wait' ? 0 : computeWaitMs(promiseMs) / replica.rate;
      this.at(backMs + waitMs, die);
    };
    const readAndAnswer = (): void => this.at(outMs + backMs, () => answerAfter(database.readLongestPromiseMs()));
    this.at(outMs, () => {
      if (credentials.every(({ hasEnded }) => hasEnded)) {
        if (mistake === 'repeated revocation does not wait') this.at(backMs, die);
        else readAndAnswer();
        return;
      }
      const readBeforeMs = database.readLongestPromiseMs();
      const transaction = database.begin(id, kind);
      this.at(holdMs, () => {
        if (!database.commit(transaction)) return;
        for (const credential of credentials) credential.hasEnded = true;
        if (mistake === 'announcements read before the commit') answerAfter(readBeforeMs);
        else readAndAnswer();
      });
    });
  }
}

/** Lets all promises settle: nothing in the model takes real time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 40; turn += 1) await Promise.resolve();
}
