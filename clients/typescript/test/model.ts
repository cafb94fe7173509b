import { ChangeLog } from '../../../src/keys/cache/change-log.js';
import type { LoggedAnswer } from '../../../src/keys/cache/change-feed.js';
import { RevocationLease } from '../../../src/keys/cache/revocation-lease.js';
import { Database, type Mistake as ProtocolMistake } from '../../../test/keys/simulation.js';
import { toSettings } from '../src/options.js';
import { ConnectionError, type ServiceAnswer, type ServiceRequest, type Transport } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';

/** Two verifiers, a load balancer, three replicas and PostgreSQL, in simulated time: the real verifiers, leases and logs. */

export const LEASE_MS = 600;
const POLL_MS = LEASE_MS / 3;
const WAIT_MS = LEASE_MS * 1.02 + 2;
const GRACE_MS = 2_000;

/** Faulty variants, which the model must refute. */
export type Mistake =
  | ProtocolMistake
  | 'lease of a poll from the answer'
  | 'lease of a verdict from the answer'
  | 'lease of the replica from the answer'
  | 'late answer used'
  | 'grace handed on'
  | 'verdict from a replica’s memory'
  | 'reset remembered per connection'
  | 'user voids no ticket'
  | 'list truncated'
  | 'log pruned without raising its start'
  | 'repeated revocation does not wait';

export interface Step {
  readonly afterMs: number;
  readonly act:
    | 'present'
    | 'end'
    | 'disable'
    | 'route'
    | 'cut verifier'
    | 'cut replica'
    | 'pause verifier'
    | 'pause replica'
    | 'restart replica'
    | 'prune'
    | 'jump'
    | 'fail over'
    | 'crash'
    | 'abort'
    | 'purge';
  readonly verifier: number;
  readonly replica: number;
  readonly credential: number;
  readonly outMs: number;
  readonly holdMs: number;
  readonly backMs: number;
}

interface Credential {
  readonly kind: 'node' | 'session';
  readonly id: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
  /** Committed. */
  hasEnded: boolean;
  /** From then on no verifier may accept it. */
  deadSince: number;
}

const USER = 'user-1';
const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

function createCredentials(): Credential[] {
  const nodes = [1, 2].map((n) => ({
    kind: 'node' as const,
    id: `node-${n}`,
    headers: { 'x-api-key': `node-${n}:key` },
    body: { valid: true, node_id: `node-${n}`, household_id: 'home' },
  }));
  const sessions = [1, 2].map((n) => ({
    kind: 'session' as const,
    id: `session-${n}`,
    headers: { authorization: `Bearer ${encode({ alg: 'HS256' })}.${encode({ sub: USER, sid: `session-${n}` })}.x` },
    body: { valid: true, user_id: USER, session_id: `session-${n}`, email: 'a@example.org' },
  }));
  return [...nodes, ...sessions].map((credential) => ({ ...credential, hasEnded: false, deadSince: Infinity }));
}

/** A process with clocks of its own, which can stand still. */
class Process {
  isCut = false;
  isPaused = false;
  wallOffsetMs = 0;
  private inbox: (() => void)[] = [];

  constructor(
    readonly world: World,
    readonly rate: number,
  ) {}

  readonly clocks = {
    monotonic: () => this.world.nowMs * this.rate,
    wall: () => this.world.nowMs * this.rate + this.wallOffsetMs,
  };

  do(work: () => void): void {
    if (this.isPaused) this.inbox.push(work);
    else work();
  }

  togglePause(): void {
    this.isPaused = !this.isPaused;
    if (!this.isPaused) for (const work of this.inbox.splice(0)) work();
  }

  schedule(work: () => void, afterMs: number): () => void {
    let isCancelled = false;
    this.world.at(afterMs / this.rate, () =>
      this.do(() => {
        if (!isCancelled) work();
      }),
    );
    return () => void (isCancelled = true);
  }
}

class Replica extends Process {
  private lease!: RevocationLease;
  private log!: ChangeLog;
  private life = 0;
  /** What had not ended when the last answered poll was read. */
  private live: ReadonlySet<string> = new Set();

  start(): void {
    this.life += 1;
    const outageGraceMs = this.world.mistake === 'grace handed on' ? GRACE_MS : 0;
    this.lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs }, this.clocks);
    this.log = new ChangeLog();
    this.poll(this.life);
  }

  /** Forgets the oldest changes, as a full log does. */
  prune(): void {
    const log = this.log as unknown as { batches: { since: unknown }[]; start: unknown; head: unknown };
    log.batches.shift();
    if (this.world.mistake !== 'log pruned without raising its start') log.start = log.batches[0]?.since ?? log.head;
  }

  async answer({ url, body = '{}' }: ServiceRequest, credential: Credential | undefined): Promise<ServiceAnswer> {
    if (url.endsWith('/changes')) return this.answerPoll((JSON.parse(body) as { cursor?: string }).cursor);
    const { mistake } = this.world;
    const isRemembered = mistake === 'verdict from a replica’s memory' && this.lease.isHeld;
    const isLive = isRemembered ? this.live.has(credential!.id) : await this.ask(() => credential?.hasEnded === false);
    if (!isLive) {
      const code = credential?.kind === 'node' ? 'invalid_node_credentials' : 'invalid_access_token';
      return { status: 401, headers: {}, body: JSON.stringify({ code }) };
    }
    const headers = {
      'x-platform-remember': 'yes',
      'x-platform-expires-in': '60',
      'x-platform-fresh-for-ms': String(LEASE_MS),
    };
    return { status: 200, headers, body: JSON.stringify(credential!.body) };
  }

  private async answerPoll(cursor: string | undefined): Promise<ServiceAnswer> {
    const { mistake, database } = this.world;
    const fromLog = this.log.answer(cursor) ?? this.assumeConnection();
    const answer = fromLog ?? (await this.ask(() => database.answer(cursor)));
    const freshForMs = this.lease.remainingMs + (mistake === 'grace handed on' && this.lease.isHeld ? GRACE_MS : 0);
    if (freshForMs === 0) return { status: 503, headers: {}, body: '{}' };
    const changes = mistake === 'list truncated' ? answer.changes.slice(0, 1) : answer.changes;
    const listed = changes.map(({ kind, id }) => ({ kind, id }));
    const fields = { cursor: answer.cursor, reset: answer.reset, lease_ms: LEASE_MS, fresh_for_ms: freshForMs };
    return { status: 200, headers: {}, body: JSON.stringify({ ...fields, changes: listed }) };
  }

  /** The mistake: a verifier that was reset once on this connection is taken to know everything before. */
  private assumeConnection() {
    if (this.world.mistake !== 'reset remembered per connection') return undefined;
    const { head } = this.log as unknown as { head?: { epoch: string; snapshot: string } };
    return head && { cursor: `${head.epoch}/${head.snapshot}`, reset: false, changes: [] };
  }

  private poll(life: number): void {
    if (life !== this.life) return;
    const { lease, log, world } = this;
    const poll = async (cursor: string | undefined): Promise<LoggedAnswer> => {
      const read = () => ({ answer: world.database.answer(cursor) as LoggedAnswer, live: world.liveIds() });
      const { answer, live } = await this.ask(read);
      this.live = live;
      log.append(answer);
      return answer;
    };
    const isFromAnswer = world.mistake === 'lease of the replica from the answer';
    const renewed = isFromAnswer
      ? poll((lease as unknown as { cursor?: string }).cursor).then((answer) =>
          lease.renew(() => Promise.resolve(answer)),
        )
      : lease.renew(poll);
    const next = (): void => void this.schedule(() => this.poll(life), POLL_MS);
    renewed.then(next, next);
  }

  /** A statement in PostgreSQL. */
  private ask<Answer>(read: () => Answer): Promise<Answer> {
    const { outMs, backMs } = this.world.network;
    return new Promise((resolve, reject) => {
      this.schedule(() => reject(new Error('no answer')), LEASE_MS);
      this.world.at(outMs, () => {
        if (this.isCut) return;
        const answer = read();
        this.world.at(backMs, () => {
          if (!this.isCut) this.do(() => resolve(answer));
        });
      });
    });
  }
}

class VerifierProcess extends Process implements Transport {
  verifier!: VerifierCore;
  /** The replica to which the load balancer leads. */
  route = 0;

  start(): void {
    const settings = toSettings({
      url: 'http://auth.test',
      appId: 'own',
      appKey: 'own',
      serviceName: 'recipes',
      logger: { warn: () => undefined },
    });
    const { clocks } = this;
    const schedule = (work: () => void, afterMs: number) => this.schedule(work, afterMs);
    this.verifier = new VerifierCore(settings, { clocks, transport: this, schedule, random: () => 0.5 });
    this.plant();
  }

  close(): void {
    // Answers come from memory: no connection is open.
  }

  send(request: ServiceRequest): Promise<ServiceAnswer> {
    const { world } = this;
    const { outMs, backMs } = world.network;
    const sentAtMs = this.clocks.monotonic();
    const presented = new Headers(request.headers);
    const credential = world.credentials.find(({ headers }) =>
      Object.entries(headers).every(([name, value]) => presented.get(name) === value),
    );
    return new Promise((resolve, reject) => {
      world.at(outMs, () => {
        if (this.isCut) return;
        const replica = world.replicas[this.route]!;
        replica.do(() => {
          const deliver = (settle: () => void) => world.at(backMs, () => !this.isCut && this.do(settle));
          replica.answer(request, credential).then(
            (answer) => deliver(() => resolve(this.distort(answer, this.clocks.monotonic() - sentAtMs))),
            () => deliver(() => reject(new ConnectionError('broken'))),
          );
        });
      });
    });
  }

  async present(credential: Credential): Promise<void> {
    const { verifier, world } = this;
    const request = { headers: credential.headers };
    try {
      await (credential.kind === 'node' ? verifier.verifyNode(request) : verifier.verifyUser(request));
    } catch {
      return;
    }
    world.accepted += 1;
    if (world.nowMs >= credential.deadSince) {
      world.violations.push(`${credential.id} accepted at ${world.nowMs}, dead since ${credential.deadSince}`);
    }
  }

  /** A lease counted from the answer is one that is longer by the time that the answer took. */
  private distort(answer: ServiceAnswer, elapsedMs: number): ServiceAnswer {
    const { mistake } = this.world;
    if (answer.status !== 200) return answer;
    const body = JSON.parse(answer.body) as { fresh_for_ms?: number };
    if (mistake === 'lease of a poll from the answer' && body.fresh_for_ms !== undefined) {
      return { ...answer, body: JSON.stringify({ ...body, fresh_for_ms: body.fresh_for_ms + elapsedMs }) };
    }
    if (mistake !== 'lease of a verdict from the answer') return answer;
    const freshForMs = String(Math.ceil(LEASE_MS + elapsedMs));
    return { ...answer, headers: { ...answer.headers, 'x-platform-fresh-for-ms': freshForMs } };
  }

  private plant(): void {
    const inner = this.verifier as unknown as {
      questions: { isUsable: () => boolean };
      lease: { version: number; evict: (kind: string, id: string) => void };
    };
    if (this.world.mistake === 'late answer used') inner.questions.isUsable = () => true;
    if (this.world.mistake !== 'user voids no ticket') return;
    const { lease } = inner;
    const evict = lease.evict.bind(lease);
    lease.evict = (kind, id) => {
      const { version } = lease;
      evict(kind, id);
      if (kind === 'user') lease.version = version;
    };
  }
}

export class World {
  nowMs = 0;
  accepted = 0;
  asked = 0;
  readonly violations: string[] = [];
  readonly credentials = createCredentials();
  readonly database: Database;
  readonly replicas = [0.99, 1, 1.01].map((rate) => new Replica(this, rate));
  readonly verifiers = [1.01, 0.99].map((rate) => new VerifierProcess(this, rate));
  network = { outMs: 5, backMs: 5 };
  private readonly queue: { readonly atMs: number; readonly work: () => void }[] = [];

  constructor(readonly mistake: Mistake) {
    this.database = new Database(mistake as ProtocolMistake);
  }

  at(afterMs: number, work: () => void): void {
    this.queue.push({ atMs: this.nowMs + afterMs, work });
  }

  liveIds(): ReadonlySet<string> {
    return new Set(this.credentials.filter(({ hasEnded }) => !hasEnded).map(({ id }) => id));
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
      disable: () => this.end(replica, this.credentials.slice(2), 'user', USER, step),
      route: () => void (verifier.route = step.replica),
      'cut verifier': () => void (verifier.isCut = !verifier.isCut),
      'cut replica': () => void (replica.isCut = !replica.isCut),
      'pause verifier': () => verifier.togglePause(),
      'pause replica': () => replica.togglePause(),
      'restart replica': () => replica.start(),
      prune: () => replica.prune(),
      jump: () => void (verifier.wallOffsetMs += (step.holdMs - 100) * 1e5),
      'fail over': () => this.database.loseUnfinished('fail over'),
      crash: () => this.database.loseUnfinished('crash'),
      abort: () => this.database.abort(1 + (step.holdMs % 4)),
      purge: () => this.database.purge(step.holdMs),
    };
    acts[step.act]();
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
