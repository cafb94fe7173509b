import { decodeJwt } from 'jose';
import { readToken } from '../../../../clients/typescript/src/credentials.js';
import type { PresentedRequest } from '../../../../clients/typescript/src/presented-request.js';
import { toSettings } from '../../../../clients/typescript/src/options.js';
import {
  ConnectionError,
  type ServiceAnswer,
  type ServiceRequest,
  type Transport,
} from '../../../../clients/typescript/src/transport.js';
import { MissingRoleError, NotAMemberError } from '../../../../clients/typescript/src/errors.js';
import { VerifierCore } from '../../../../clients/typescript/src/verifier-core.js';
import type { Credential } from './credentials.js';
import { EARLIER_PAIR, type DelegatedToken } from './delegation.js';
import { LEASE_MS } from './histories.js';
import { HOME } from './household.js';
import type { Mistake } from './mistakes.js';
import { Process } from './process.js';

/** A token of a user, with the chain of a delegated one. */
type Passed = Omit<DelegatedToken, 'chain'> & Partial<DelegatedToken>;

export class VerifierProcess extends Process implements Transport {
  verifier!: VerifierCore;
  /** The replica to which the load balancer leads. */
  route = 0;

  start(): void {
    const settings = toSettings({
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: 'recipes',
      // The default allocates for 100,000, in each history.
      maxEntries: 10,
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
    world.judge(credential, world.nowMs);
  }

  async presentMember(credential: Credential, role?: 'admin'): Promise<void> {
    const { world, verifier } = this;
    const { household } = world;
    try {
      await verifier.verifyMember({ headers: credential.headers }, { household: HOME, role });
    } catch (error) {
      if (error instanceof NotAMemberError) world.judgeRefusal(household.place);
      if (error instanceof MissingRoleError) world.judgeRefusal(household.role);
      return;
    }
    world.judge(credential, world.nowMs);
    world.judge(role ? household.role : household.place, world.nowMs);
  }

  /** @param scope that the route demands */
  async presentDelegated({ headers, sessionId, chain }: DelegatedToken, scope?: string): Promise<void> {
    const { world, verifier } = this;
    const isJudgedWhenAsked = world.mistake === 'demands judged when asked' && this.hasAsked(headers);
    const demands = { delegated: true, ...(scope !== undefined && !isJudgedWhenAsked && { scope }) };
    try {
      await verifier.verifyUser({ headers }, demands);
    } catch {
      return;
    }
    world.judge(world.findSession(sessionId), world.nowMs);
    for (const { appId } of chain) world.judge(world.delegation.findPair(appId), world.nowMs);
    if (scope === 'write') world.judge(world.delegation.scope, world.nowMs);
  }

  /** Calls the third service on behalf of the user: with the chain of a delegated token, or none. */
  async callOnward({ headers, sessionId, chain = [] }: Passed): Promise<void> {
    const { world } = this;
    const token = await this.verifier.tokenFor({ headers }, 'ocr').catch(() => undefined);
    if (token === undefined || !world.delegation.isAccepted(token)) return;
    world.judge(world.findSession(sessionId), world.nowMs);
    for (const { appId } of chain) world.judge(world.delegation.findPair(appId), world.nowMs);
  }

  private hasAsked(headers: Readonly<Record<string, string>>): boolean {
    const { tokens, questions } = this.verifier as unknown as Inner;
    return tokens.find(readToken({ headers }).digest) !== undefined || questions.inFlight.size > 0;
  }

  /** A lease counted from the answer is one that is longer by the time that the answer took. */
  private distort(answer: ServiceAnswer, elapsedMs: number): ServiceAnswer {
    const { mistake } = this.world;
    if (answer.status !== 200) return answer;
    const body = JSON.parse(answer.body) as { fresh_for_ms?: number };
    if (mistake === 'lease of a poll from the answer' && body.fresh_for_ms !== undefined) {
      return { ...answer, body: JSON.stringify({ ...body, fresh_for_ms: body.fresh_for_ms + elapsedMs }) };
    }
    if (mistake === 'absent taken for none') return { ...answer, body: JSON.stringify({ households: [], ...body }) };
    if (mistake !== 'lease of a verdict from the answer') return answer;
    const freshForMs = String(Math.ceil(LEASE_MS + elapsedMs));
    return { ...answer, headers: { ...answer.headers, 'x-platform-fresh-for-ms': freshForMs } };
  }

  private plant(): void {
    const inner = this.verifier as unknown as Inner;
    const plants: Partial<Record<Mistake, () => void>> = {
      'late answer used': () => (inner.questions.isUsable = () => true),
      'remembered answer outlives a demotion': () => (inner.tokens.byUser.find = () => []),
      'earlier link not indexed': () => plantUnindexedLink(inner),
      'token reused by session and target': () => plantReuseBySession(inner),
      'user voids no ticket': () => plantVoidlessUsers(inner),
      'entries end by the wall clock alone': () => (inner.lease.isOlderThan = () => false),
      'entries end by the monotonic clock alone': () => plantMonotonicEnds(inner),
    };
    plants[this.world.mistake]?.();
    if (this.world.mistake !== 'none') keepRefused(inner);
  }
}

/** Private parts of the verifier, which the mistakes change. */
interface Inner {
  readonly questions: {
    readonly inFlight: ReadonlyMap<string, unknown>;
    isUsable: () => boolean;
    ask: (question: object, isAboutChange?: boolean) => unknown;
  };
  readonly exchanged: { get: (request: PresentedRequest, target: string, demands: object) => Promise<string> };
  readonly lease: { version: number; evict: (kind: string, id: string) => void; isOlderThan: () => boolean };
  readonly tokens: {
    byUser: { find: () => readonly string[] };
    byApp: { find: (id: string) => readonly string[] };
    find: (digest: string) => unknown;
  };
  readonly nodes: { isUsable: (key: unknown, readNow: () => Date) => boolean };
}

/** A refusal ends what is remembered, which no rule demands. It would hide most mistakes. */
function keepRefused({ questions }: Inner): void {
  const ask = questions.ask.bind(questions);
  questions.ask = (question, isAboutChange) => ask({ ...question, forget: () => undefined }, isAboutChange);
}

function plantUnindexedLink({ tokens: { byApp } }: Inner): void {
  const find = byApp.find.bind(byApp);
  byApp.find = (id) => (id === EARLIER_PAIR ? [] : find(id));
}

/** Presents for each request the first token of its session. */
function plantReuseBySession({ exchanged }: Inner): void {
  const first = new Map<string, PresentedRequest>();
  const get = exchanged.get.bind(exchanged);
  exchanged.get = (request, target, demands) => {
    const { sid } = decodeJwt<{ sid: string }>(readToken(request).token);
    const known = first.get(sid) ?? request;
    first.set(sid, known);
    return get(known, target, demands);
  };
}

function plantVoidlessUsers({ lease }: Inner): void {
  const evict = lease.evict.bind(lease);
  lease.evict = (kind, id) => {
    const { version } = lease;
    evict(kind, id);
    if (kind === 'user') lease.version = version;
  };
}

function plantMonotonicEnds({ nodes }: Inner): void {
  const isUsable = nodes.isUsable.bind(nodes);
  nodes.isUsable = (key) => isUsable(key, () => new Date(0));
}
