/**
 * Verdicts on credentials from memory, under the lease that the authentication service hands on. Terms: question (a request to
 * `/internal/validate-*`), poll (one to `/internal/changes`), lease, ticket. Invariants: memory is used only while the lease
 * is held, counted from the moment a poll was sent; a yes is used directly only until its own lease ends, counted from the
 * moment the question was sent; only the service refuses, except what is malformed or forged; what is not a verdict is 503.
 */
import { inspect } from 'node:util';
import { KeyCache } from '../../../packages/lease/src/key-cache.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { MAX_REMEMBER_MS } from './answers.js';
import {
  readApp,
  readNode,
  readToken,
  readTracing,
  toPresentedDigest,
  toStoredDigest,
  type Credential,
} from './credentials.js';
import { readNetwork } from './client-network.js';
import { ClockCheck } from './clock-check.js';
import { RefusedError } from './errors.js';
import { Misconfigurations, UnexpectedErrors } from './events.js';
import type { Settings } from './options.js';
import { Poller } from './poller.js';
import type { AppPrincipal, NodePrincipal, Principal, UserPrincipal } from './principals.js';
import type { PresentedRequest } from './presented-request.js';
import type { Turn } from './question-slots.js';
import { Questions, type Question } from './questions.js';
import { REFUSALS } from './refusals.js';
import type { Runtime } from './runtime.js';
import { ServiceClient } from './service-client.js';
import { toAppPrincipal, toNodePrincipal, toUserPrincipal } from './to-principal.js';
import { TokenCache, type Term } from './token-cache.js';
import { TokenCheck } from './token-check.js';
import type { ServiceRequest } from './transport.js';
import { Uses } from './uses.js';

const MS_PER_SECOND = 1_000;
const ASK_AGAIN_AFTER_MS = 0.75 * MAX_REMEMBER_MS;

/** A yes of the service that was remembered. */
interface Remembered<Identity> {
  readonly identity: Identity;
  readonly takenAtMs: number;
  readonly maxAgeMs: number;
}

export class VerifierCore {
  private readonly lease: RevocationLease;
  private readonly apps: KeyCache<AppPrincipal>;
  private readonly nodes: KeyCache<NodePrincipal>;
  private readonly tokens: TokenCache;
  private readonly uses = new Uses();
  private readonly questions: Questions;
  private readonly tokenCheck: TokenCheck;
  private readonly poller: Poller;
  private readonly askedAgain = new WeakSet<Remembered<unknown>>();

  /**
   * Polls at once.
   * @internal
   */
  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
  ) {
    const { maxEntries, maxQuestions, outageGraceSeconds, logger } = settings;
    const outageGraceMs = outageGraceSeconds * MS_PER_SECOND;
    this.lease = new RevocationLease({ leaseMs: 0, outageGraceMs, keepsLapsedEntries: true }, runtime.clocks);
    this.apps = new KeyCache('app', this.lease, maxEntries);
    this.nodes = new KeyCache('node', this.lease, maxEntries);
    this.tokens = new TokenCache(this.lease, maxEntries);
    const client = new ServiceClient(runtime);
    const misconfigurations = new Misconfigurations(logger);
    const clockCheck = new ClockCheck(runtime.clocks, misconfigurations);
    this.tokenCheck = new TokenCheck(settings, runtime, client, clockCheck, misconfigurations, this.lease);
    this.poller = new Poller(settings, runtime, client, this.lease, this.uses, clockCheck, misconfigurations);
    const unexpectedErrors = new UnexpectedErrors(logger);
    const onRemember = (): void => this.poller.start();
    this.questions = new Questions(
      maxQuestions,
      runtime,
      client,
      this.lease,
      misconfigurations,
      unexpectedErrors,
      onRemember,
    );
    if (outageGraceMs > 0) {
      const detail = `While the authentication service is unreachable, a revoked credential may be accepted for up to ${outageGraceSeconds} s.`;
      logger.warn('verifier_outage_grace', { detail });
    }
    this.poller.start();
  }

  /**
   * Verifies the key of a calling service: `X-Platform-App-Id` and `X-Platform-App-Key`.
   * @throws {RefusedError} {UnavailableError}
   */
  async verifyApp(request: PresentedRequest): Promise<AppPrincipal> {
    const credential = readApp(request);
    const { id } = credential;
    const { serviceName } = this.settings;
    const path = '/internal/validate-app';
    const { found, isUsable } = this.recallKey(this.apps, credential);
    return this.answer(found, isUsable, () => ({
      credential,
      turn: toTurn(request, found),
      path,
      request: this.createRequest(path, request, credential.toHeaders(), { target: serviceName }),
      read: (body) => toAppPrincipal(body, id, serviceName),
      remember: (identity, term, ticket) => this.apps.remember(id, toVerifiedKey(credential, identity, term), ticket),
      forget: () => this.apps.evict(id),
    }));
  }

  /**
   * Verifies the key of a node: `X-API-Key: node_id:api_key`.
   * @throws {RefusedError} {UnavailableError}
   */
  async verifyNode(request: PresentedRequest): Promise<NodePrincipal> {
    const credential = readNode(request);
    const { id } = credential;
    const path = '/internal/validate-node';
    const { found, isUsable } = this.recallKey(this.nodes, credential);
    return this.answer(found, isUsable, () => ({
      credential,
      turn: toTurn(request, found),
      path,
      request: this.createRequest(path, request, this.withOwnKey(credential)),
      read: (body) => toNodePrincipal(body, id),
      remember: (identity, term, ticket) => this.nodes.remember(id, toVerifiedKey(credential, identity, term), ticket),
      forget: () => this.nodes.evict(id),
    }));
  }

  /**
   * Verifies the access token of a user: `Authorization: Bearer`.
   * @throws {RefusedError} {UnavailableError}
   */
  async verifyUser(request: PresentedRequest): Promise<UserPrincipal> {
    const credential = readToken(request);
    const { digest, token } = credential;
    const found = this.tokens.find(digest);
    const isUsable = found !== undefined && this.tokens.isUsable(found, this.runtime.clocks.wall());
    const path = '/internal/validate-user';
    return this.answer(found, isUsable, () => {
      const claimed = this.tokenCheck.readClaims(token);
      if (!claimed) throw new RefusedError(REFUSALS.user);
      return {
        credential,
        turn: toTurn(request, found),
        path,
        request: this.createRequest(path, request, this.withOwnKey(credential)),
        check: (deadlineMs) => this.tokenCheck.check(token, deadlineMs),
        read: (body) => toUserPrincipal(body, claimed),
        remember: (identity, term, ticket) => this.tokens.remember(digest, identity, term, ticket),
        forget: () => this.tokens.forget(digest),
      };
    });
  }

  /** Stops polling and closes the connections. */
  close(): void {
    this.poller.close();
    this.runtime.transport.close();
  }

  /** Without the credentials. */
  toJSON(): object {
    const { url, serviceName } = this.settings;
    return { url, serviceName };
  }

  [inspect.custom](): string {
    return `Verifier ${JSON.stringify(this.toJSON())}`;
  }

  private recallKey<Identity extends AppPrincipal | NodePrincipal>(cache: KeyCache<Identity>, credential: Credential) {
    const { clocks } = this.runtime;
    const { id } = credential;
    const found = cache.find(id, toPresentedDigest(credential));
    const isUsable = found !== undefined && cache.isUsable(found, new Date(clocks.wall()));
    if (isUsable) this.uses.add(cache.kind, id, clocks.monotonic());
    return { found, isUsable };
  }

  private async answer<Identity extends Principal>(
    found: Remembered<Identity> | undefined,
    isUsable: boolean,
    createQuestion: () => Question<Identity>,
  ): Promise<Identity> {
    if (!found || !isUsable) return this.questions.ask(createQuestion());
    // The answer is for the requests after this one.
    if (this.isToBeAskedAgain(found)) this.questions.ask(createQuestion()).catch(() => undefined);
    return found.identity;
  }

  /**
   * Whether to ask before the end of what the service lets be remembered: no request then waits for the answer. Once for each
   * answer, and only if the credential outlives it: a shorter term is its own end.
   */
  private isToBeAskedAgain(remembered: Remembered<unknown>): boolean {
    if (!this.lease.isOlderThan(remembered.takenAtMs, ASK_AGAIN_AFTER_MS)) return false;
    if (remembered.maxAgeMs < MAX_REMEMBER_MS || this.askedAgain.has(remembered)) return false;
    this.askedAgain.add(remembered);
    return true;
  }

  private withOwnKey({ toHeaders }: Credential): Record<string, string> {
    const { appId, appKey } = this.settings;
    return { ...toHeaders(), 'X-Platform-App-Id': appId, 'X-Platform-App-Key': appKey };
  }

  private createRequest(
    path: string,
    request: PresentedRequest,
    headers: Readonly<Record<string, string>>,
    body?: object,
  ): ServiceRequest {
    return {
      method: 'POST',
      url: this.settings.url + path,
      headers: {
        ...readTracing(request),
        ...headers,
        'Cache-Control': 'no-cache',
        ...(body && { 'Content-Type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    };
  }
}

function toVerifiedKey<Identity>(credential: Credential, identity: Identity, { maxAgeMs, endsAtWallMs }: Term) {
  return { digest: toStoredDigest(credential), identity, maxAgeMs, expiresAt: new Date(endsAtWallMs) };
}

function toTurn(request: PresentedRequest, found: Remembered<unknown> | undefined): Turn {
  return { wasValid: found !== undefined, network: found ? '' : readNetwork(request) };
}
