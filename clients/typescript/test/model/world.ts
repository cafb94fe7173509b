import { Database, type Mistake as ProtocolMistake } from '../../../../test/keys/simulation.js';
import { createCredentials, USER, type Credential } from './credentials.js';
import { LEASE_MS, type Step } from './histories.js';
import type { Mistake } from './mistakes.js';
import { Replica } from './replica.js';
import { VerifierProcess } from './verifier-process.js';

const WAIT_MS = LEASE_MS * 1.02 + 2;

/** Two verifiers, a load balancer, three replicas and PostgreSQL, in simulated time: the real verifiers, leases and logs. */
export class World {
  nowMs = 0;
  accepted = 0;
  readonly violations: string[] = [];
  readonly credentials = createCredentials();
  readonly database: Database;
  readonly replicas = [0.99, 1, 1.01].map((rate) => new Replica(this, rate));
  readonly verifiers = [1.01, 0.99].map((rate) => new VerifierProcess(this, rate));
  network = { outMs: 5, backMs: 5 };
  private readonly queue: { readonly atMs: number; readonly work: () => void }[] = [];

  constructor(
    readonly mistake: Mistake,
    readonly graceMs = 0,
  ) {
    this.database = new Database(mistake as ProtocolMistake);
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

  async run(steps: readonly Step[]): Promise<void> {
    for (const replica of this.replicas) replica.start();
    for (const verifier of this.verifiers) verifier.start();
    let atMs = 50;
    for (const step of steps) this.at((atMs += step.afterMs), () => this.take(step));
    const endMs = atMs + 2 * LEASE_MS;
    for (let next = this.next(); next && next.atMs <= endMs; next = this.next()) {
      this.nowMs = next.atMs;
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
    };
    acts[step.act]();
  }

  private findSessions(): Credential[] {
    return this.credentials.filter(({ kind }) => kind === 'session');
  }

  /** A call that ends credentials: a transaction, the wait, and the answer. */
  private end(
    replica: Replica,
    credentials: readonly Credential[],
    kind: 'node' | 'session' | 'user',
    id: string,
    { outMs, holdMs, backMs }: Step,
  ): void {
    if (replica.isCut) return;
    const die = (): void => {
      for (const credential of credentials) credential.deadSince = Math.min(this.nowMs, credential.deadSince);
    };
    this.at(outMs, () => {
      if (credentials.every(({ hasEnded }) => hasEnded)) {
        this.at(backMs + (this.mistake === 'repeated revocation does not wait' ? 0 : WAIT_MS), die);
        return;
      }
      const transaction = this.database.begin(id, kind);
      this.at(holdMs, () => {
        if (!this.database.commit(transaction)) return;
        for (const credential of credentials) credential.hasEnded = true;
        this.at(backMs + (this.mistake === 'no wait' ? 0 : WAIT_MS), die);
      });
    });
  }
}

/** Lets all promises settle: nothing in the model takes real time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
}
