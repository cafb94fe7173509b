import { computeWaitMs } from '../../../../src/domain/revocation/propagation.js';
import { createCredentials, USER, type Credential } from './credentials.js';
import { Database } from './database.js';
import { Delegation, type DelegatedToken } from './delegation.js';
import { LEASE_MS, type Step } from './histories.js';
import { Household, type Right } from './household.js';
import type { Mistake } from './mistakes.js';
import { Replica } from './replica.js';
import { VerifierProcess } from './verifier-process.js';

/** Longer than an announcement counts. */
export const STANDSTILL_MS = 61_000;

/** What differs between histories besides their steps. */
export interface Setting {
  readonly graceMs: number;
  /** The leases of the three replicas. */
  readonly leasesMs: readonly number[];
  /** The index of a replica of a version that does not know households. */
  readonly olderReplica?: number;
  /** Other verifiers ask all the time, so that a replica without a lease has announced its promise. */
  readonly isAskedByOthers?: boolean;
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
  readonly household = new Household(this);
  readonly delegation = new Delegation(this);
  readonly graceMs: number;
  readonly isAskedByOthers: boolean;
  readonly database: Database;
  readonly replicas: readonly Replica[];
  readonly verifiers = [1.01, 0.99].map((rate) => new VerifierProcess(this, rate));
  network = { outMs: 5, backMs: 5 };
  private readonly queue: { readonly atMs: number; readonly work: () => void }[] = [];

  constructor(
    readonly mistake: Mistake,
    { graceMs, leasesMs, olderReplica, isAskedByOthers = false }: Setting = DEFAULT_SETTING,
  ) {
    this.graceMs = graceMs;
    this.isAskedByOthers = isAskedByOthers;
    this.database = new Database(mistake, () => this.nowMs);
    const rates = [0.99, 1, 1.01];
    this.replicas = leasesMs.map((leaseMs, index) => new Replica(this, rates[index]!, leaseMs, index === olderReplica));
  }

  at(afterMs: number, work: () => void): void {
    this.queue.push({ atMs: this.nowMs + afterMs, work });
  }

  liveIds(): ReadonlySet<string> {
    return new Set(this.credentials.filter((credential) => this.isLive(credential)).map(({ id }) => id));
  }

  isLive({ hasEnded, expiresAtMs = Infinity }: Right): boolean {
    return !hasEnded && this.nowMs < expiresAtMs;
  }

  /** Whole seconds, rounded down. */
  getSecondsLeft({ expiresAtMs = Infinity }: Right): number {
    return Math.max(0, Math.floor(Math.min(60_000, expiresAtMs - this.nowMs) / 1_000));
  }

  /** A credential, or what its owner may do, was accepted at a moment. */
  judge({ id, deadSince }: Right, atMs: number, isExcused = false): void {
    this.accepted += 1;
    if (atMs >= deadSince && !isExcused) this.violations.push(`${id} accepted at ${atMs}, dead since ${deadSince}`);
  }

  /** A verifier told a user that this right is not theirs. */
  judgeRefusal({ id, hasEnded }: Right): void {
    if (!hasEnded) this.violations.push(`${id} was refused at ${this.nowMs}`);
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
      this.observe();
    }
  }

  /** Called after each event, for a recorder. */
  protected observe(): void {
    // Nothing to record.
  }

  private next() {
    if (this.queue.length === 0) return undefined;
    const first = this.queue.reduce((least, event, i) => (event.atMs < this.queue[least]!.atMs ? i : least), 0);
    return this.queue.splice(first, 1)[0];
  }

  protected take(step: Step): void {
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
      'present member': () => {
        const sessions = this.findSessions();
        const session = sessions[step.credential % sessions.length]!;
        verifier.do(() => void verifier.presentMember(session, step.holdMs % 2 === 0 ? 'admin' : undefined));
      },
      demote: () => this.endMembership(replica, [this.household.role], step),
      remove: () => this.endMembership(replica, [this.household.role, this.household.place], step),
      'other admin leaves': () => this.household.letOtherAdminLeave(step.holdMs),
      'issue code': () => this.household.issueCode(step.holdMs),
      'accept code': () => this.household.acceptCode(step.holdMs),
      'present delegated': () => {
        const token = this.pickToken(step.credential);
        verifier.do(() => void verifier.presentDelegated(token, step.holdMs % 2 === 0 ? 'write' : undefined));
      },
      'call onward': () => {
        const token = this.pickToken(step.credential);
        const { id, headers } = this.findSession(token.sessionId);
        const passed = step.holdMs % 2 === 0 ? token : { sessionId: id, headers };
        verifier.do(() => void verifier.callOnward(passed));
      },
      'revoke pair': () => {
        const pair = this.delegation.pairs[step.credential % 2]!;
        this.end(replica, [pair], 'app', pair.id, step);
      },
      'narrow pair': () => this.end(replica, [this.delegation.scope], 'app', this.delegation.pairs[1]!.id, step),
    };
    acts[step.act]();
  }

  findSession(sessionId: string): Credential {
    return this.credentials.find(({ id }) => id === sessionId)!;
  }

  private pickToken(index: number): DelegatedToken {
    const { tokens } = this.delegation;
    return tokens[index % tokens.length]!;
  }

  private findSessions(): Credential[] {
    return this.credentials.filter(({ kind }) => kind === 'session');
  }

  /** A call that ends credentials: a transaction, the announcements, the wait, and the answer. */
  private end(
    replica: Replica,
    credentials: readonly Right[],
    kind: 'node' | 'app' | 'session' | 'user',
    id: string,
    { outMs, holdMs, backMs }: Step,
  ): void {
    if (replica.isCut) return;
    const { database, mistake } = this;
    const { die, answerAfter, readAndAnswer } = this.prepareAnswer(replica, credentials, { outMs, backMs });
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

  /** A call that demotes or removes the user, unless this is the last admin: as {@link end}, under the lock. */
  private endMembership(replica: Replica, rights: readonly Right[], { outMs, holdMs, backMs }: Step): void {
    if (replica.isCut) return;
    const { database, household, mistake } = this;
    const { die, readAndAnswer } = this.prepareAnswer(replica, rights, { outMs, backMs });
    const work = (unlock: () => void): void => {
      if (!household.canEndRole) {
        unlock();
        return;
      }
      if (rights.every(({ hasEnded }) => hasEnded)) {
        unlock();
        readAndAnswer();
        return;
      }
      const transaction = database.begin(USER, 'user');
      this.at(holdMs, () => {
        const isWritten = mistake !== 'membership without a change';
        const isCommitted = isWritten ? database.commit(transaction) : database.forget(transaction);
        if (isCommitted) household.end(rights);
        unlock();
        if (!isCommitted) return;
        if (mistake === 'removal does not wait') this.at(backMs, die);
        else readAndAnswer();
      });
    };
    this.at(outMs, () => household.lock(work));
  }

  /** How a call that ends rights answers: after a wait, and the rights are dead from then on. */
  private prepareAnswer(
    { rate }: Replica,
    rights: readonly Right[],
    { outMs, backMs }: Pick<Step, 'outMs' | 'backMs'>,
  ) {
    const { database, mistake } = this;
    const die = (): void => {
      for (const right of rights) right.deadSince = Math.min(this.nowMs, right.deadSince);
    };
    const answerAfter = (promiseMs: number): void => {
      // By the clock of the replica that was called.
      const waitMs = mistake === 'no wait' ? 0 : computeWaitMs(promiseMs) / rate;
      this.at(backMs + waitMs, die);
    };
    const readAndAnswer = (): void => this.at(outMs + backMs, () => answerAfter(database.readLongestPromiseMs()));
    return { die, answerAfter, readAndAnswer };
  }
}

/** Lets all promises settle: nothing in the model takes real time, and Node.js runs a tick when no promise is left. */
function settle(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
