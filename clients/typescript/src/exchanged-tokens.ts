/**
 * Tokens with which this service calls others on behalf of users (RFC 8693), kept in memory. They are the one exception to the
 * rule that only digests are kept, because they are sent on. Invariants: a token is used for the presented token, the target and
 * the scope for which it was issued, for 80 % of its life and while the lease is held; a change of its session, its user or a
 * pair of its chain drops it.
 */
import { decodeJwt } from 'jose';
import { LRUCache } from 'lru-cache';
import type { RevocationLease, Ticket } from '../../../packages/lease/src/lease.js';
import { isUnavailable, parseObject } from './answers.js';
import type { Checks } from './checks.js';
import { readToken, readTracing } from './credentials.js';
import { readChain, type TokenDemands } from './delegation.js';
import { RefusedError, UnavailableError } from './errors.js';
import type { Settings } from './options.js';
import type { PresentedRequest } from './presented-request.js';
import { QuestionSlots } from './question-slots.js';
import { REFUSALS } from './refusals.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient, TimedAnswer } from './service-client.js';
import { DigestIndex } from './token-cache.js';
import { ConnectionError, TimeoutError, type ServiceAnswer, type ServiceRequest } from './transport.js';

const PATH = '/internal/token';
const TIMEOUT_MS = 3_000;
const USED_SHARE = 0.8;
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
const TURN = { wasValid: true, network: '' };

/** A token, or why there is none, for every request that waited for it. */
type Outcome = string | { readonly kind: 'refused' | 'unavailable' };

const REFUSED: Outcome = { kind: 'refused' };
const UNAVAILABLE: Outcome = { kind: 'unavailable' };

interface Exchanged {
  /** Private at run time too, so that no log prints it. */
  readonly read: () => string;
  /** Kinds and ids whose change drops it. */
  readonly changes: readonly string[];
  readonly takenAtMs: number;
  readonly maxAgeMs: number;
  readonly endsAtWallMs: number;
}

export class ExchangedTokens {
  private readonly entries: LRUCache<string, Exchanged>;
  private readonly byChange = new DigestIndex();
  private readonly inFlight = new Map<string, Promise<Outcome>>();
  private readonly slots: QuestionSlots;

  /** @param onRemember called when a token is remembered, which only polls can drop */
  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    private readonly lease: RevocationLease,
    private readonly checks: Checks,
    private readonly onRemember: () => void,
  ) {
    this.slots = new QuestionSlots(settings.maxQuestions, runtime);
    this.entries = new LRUCache<string, Exchanged>({
      max: settings.maxEntries,
      dispose: ({ changes }, name) => changes.forEach((change) => this.byChange.delete(change, name)),
    });
    const evictAll = (): void => this.entries.clear();
    for (const kind of ['session', 'user', 'app'] as const) {
      const evict = (id: string): void =>
        this.byChange.find(`${kind} ${id}`).forEach((name) => void this.entries.delete(name));
      lease.addListener({ kind, evict, evictAll });
    }
  }

  /** @throws {RefusedError} when the presented token is not valid any more {UnavailableError} */
  async get(request: PresentedRequest, target: string, { scope = '' }: TokenDemands): Promise<string> {
    const credential = readToken(request);
    const name = `${credential.digest} ${target} ${scope}`;
    const found = this.entries.get(name);
    if (found && this.isUsable(found)) return found.read();
    const outcome = await this.joinOrStart(name, () => this.createRequest(request, credential.token, target, scope));
    if (typeof outcome === 'string') return outcome;
    // Each caller gets an error of its own, because it carries the id of a request.
    throw outcome.kind === 'refused' ? new RefusedError(REFUSALS.user) : new UnavailableError();
  }

  private joinOrStart(name: string, createRequest: () => ServiceRequest): Promise<Outcome> {
    const joined = this.inFlight.get(name);
    if (joined) return joined;
    const asking = this.ask(name, createRequest())
      .catch((error: unknown) => this.toUnavailable(error))
      .finally(() => this.inFlight.delete(name));
    this.inFlight.set(name, asking);
    return asking;
  }

  private toUnavailable(error: unknown): Outcome {
    if (!(error instanceof ConnectionError || error instanceof TimeoutError))
      this.checks.unexpectedErrors.report(error);
    return UNAVAILABLE;
  }

  private isUsable({ takenAtMs, maxAgeMs, endsAtWallMs }: Exchanged): boolean {
    const { lease, runtime } = this;
    return lease.isHeld && runtime.clocks.wall() < endsAtWallMs && !lease.isOlderThan(takenAtMs, maxAgeMs);
  }

  private createRequest(request: PresentedRequest, token: string, target: string, scope: string): ServiceRequest {
    const form = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: token,
      subject_token_type: ACCESS_TOKEN,
      audience: target,
      ...(scope !== '' && { scope }),
    });
    return {
      method: 'POST',
      url: this.settings.url + PATH,
      headers: { ...readTracing(request), 'Content-Type': 'application/x-www-form-urlencoded' },
      presentsOwnKey: true,
      body: form.toString(),
    };
  }

  private async ask(name: string, request: ServiceRequest): Promise<Outcome> {
    const deadlineMs = this.runtime.clocks.monotonic() + TIMEOUT_MS;
    if (!(await this.slots.enter(TURN))) return UNAVAILABLE;
    let ticket = this.lease.takeTicket();
    const takeTicket = (): void => void (ticket = this.lease.takeTicket());
    try {
      const timed = await this.client.sendWithRetry(request, deadlineMs, takeTicket);
      return this.accept(name, timed, ticket);
    } finally {
      this.slots.leave(TURN);
    }
  }

  private accept(name: string, { answer, sentAtMs, sentAtWallMs }: TimedAnswer, ticket: Ticket): Outcome {
    const body = parseObject(answer.body) ?? {};
    if (answer.status === 400 && body.code === 'invalid_subject_token') return REFUSED;
    const { access_token: token, expires_in: seconds } = body;
    const changes = typeof token === 'string' ? listChanges(token) : undefined;
    if (answer.status !== 200 || typeof token !== 'string' || typeof seconds !== 'number' || !changes) {
      this.reportMistake(answer, body.code ?? body.error);
      return UNAVAILABLE;
    }
    this.checks.misconfigurations.clear(PATH);
    const maxAgeMs = Math.max(0, seconds) * 1_000 * USED_SHARE;
    if (this.lease.isCurrent(ticket)) {
      // The old entry goes first: disposing of it later would remove the new one from the index.
      this.entries.delete(name);
      const endsAtWallMs = sentAtWallMs + maxAgeMs;
      this.entries.set(name, { read: () => token, changes, takenAtMs: sentAtMs, maxAgeMs, endsAtWallMs });
      for (const change of changes) this.byChange.add(change, name);
      this.onRemember();
    }
    return token;
  }

  /** Other answers are about this service or its entry in the map, such as `invalid_target`. */
  private reportMistake({ status }: ServiceAnswer, code: unknown): void {
    if (isUnavailable(status)) return;
    const isCode = typeof code === 'string' && /^[a-z_]{1,60}$/.test(code);
    this.checks.misconfigurations.report(PATH, `${status}: ${isCode ? code : 'not a token'}`);
  }
}

/** @returns undefined when this is not a delegated token */
function listChanges(token: string): readonly string[] | undefined {
  try {
    const { sub, sid, act } = decodeJwt(token);
    const chain = readChain(act);
    if (!chain || typeof sub !== 'string' || typeof sid !== 'string') return undefined;
    const ids = [`session ${sid}`, `user ${sub}`, ...chain.map(({ appId }) => `app ${appId}`)];
    return ids.map((id) => id.toLowerCase());
  } catch {
    return undefined;
  }
}
