/**
 * Verdicts from memory, under the lease that the authentication service hands on. Terms: question (a request to
 * `/internal/validate-*`), poll (one to `/internal/changes`), lease, ticket. Invariants: memory is used only while the
 * lease is held, counted from the moment a poll was sent, and a yes only until its own end, counted from the moment its
 * question was sent. Only the service refuses, except what is malformed or forged; everything else that is not a yes is
 * 503.
 */
import { inspect } from 'node:util';
import type { Change } from '../../../packages/lease/src/change-feed.js';
import { KeyCache } from '../../../packages/lease/src/key-cache.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { MAX_REMEMBER_MS } from './answers.js';
import { createChecks, type Checks } from './checks.js';
import { readNetwork } from './client-network.js';
import {
  findDoors,
  readApp,
  readNode,
  readRequestId,
  readToken,
  readTracing,
  toPresentedDigest,
  toStoredDigest,
  type Credential,
} from './credentials.js';
import { expectDelegation, type TokenDemands, type UserDemands } from './delegation.js';
import { Endings } from './endings.js';
import { EventReader } from './event-reader.js';
import { MissingScopeError, RefusedError, toVerificationError, VerificationError } from './errors.js';
import { ExchangedTokens } from './exchanged-tokens.js';
import { expectMember, knowsHouseholds, type MemberDemands } from './membership.js';
import { observeCounts } from './open-telemetry.js';
import type { EventsOptions, PlatformEvent } from './platform-event.js';
import type { Settings } from './options.js';
import { Poller } from './poller.js';
import type { PresentedRequest } from './presented-request.js';
import {
  hasScope,
  type AnyUserPrincipal,
  type AppPrincipal,
  type DelegatedUserPrincipal,
  type Door,
  type NodePrincipal,
  type Principal,
  type UserPrincipal,
} from './principals.js';
import { Questions, type Identified, type Question } from './questions.js';
import { createMissingCredential, REFUSALS, type Doors } from './refusals.js';
import type { Runtime } from './runtime.js';
import { ServiceClient } from './service-client.js';
import { toAppPrincipal, toNodePrincipal, toUserPrincipal, type TokenClaims } from './to-principal.js';
import { TokenCache, type Term } from './token-cache.js';
import { TokenCheck } from './token-check.js';
import type { ServiceRequest } from './transport.js';
import { Uses } from './uses.js';
import { VerdictCounts, type Counts } from './verdict-counts.js';
import type { Watch } from './watch.js';

const MS_PER_SECOND = 1_000;
const [APP_PATH, NODE_PATH, USER_PATH] = [
  '/internal/validate-app',
  '/internal/validate-node',
  '/internal/validate-user',
];
const EVERY_DOOR: Doors = ['user', 'node', 'app'];
const ASK_AGAIN_AFTER_MS = 0.75 * MAX_REMEMBER_MS;

/** A yes of the service that was remembered. */
interface Remembered<Identity> {
  readonly identity: Identity;
  readonly takenAtMs: number;
  readonly maxAgeMs: number;
}

/** What memory has about a credential, and the question to ask when that does not suffice. */
interface LookUp<Identity extends Identified> {
  readonly remembered: Remembered<Identity> | undefined;
  readonly createQuestion: () => Question<Identity>;
}

/** What the route demands of an app besides a valid key. */
export interface AppDemands {
  /** A key that has scopes, but not this one, is refused with 403 `missing_scope`. */
  readonly scope?: string | undefined;
}

/** Judged at each decision, because requests with other demands share the answer. */
interface Demands extends AppDemands {
  readonly membership?: MemberDemands | undefined;
  readonly delegation?: UserDemands | undefined;
}

const NO_DELEGATION: UserDemands = {};

export class VerifierCore {
  private readonly lease: RevocationLease;
  private readonly apps: KeyCache<AppPrincipal>;
  private readonly nodes: KeyCache<NodePrincipal>;
  private readonly tokens: TokenCache;
  private readonly exchanged: ExchangedTokens;
  private readonly uses = new Uses();
  private readonly questions: Questions;
  private readonly tokenCheck: TokenCheck;
  private readonly poller: Poller;
  private readonly endings: Endings;
  private readonly eventReader: EventReader;
  private readonly counts: VerdictCounts;
  private readonly checks: Checks;
  private readonly askedAgain = new WeakSet<Remembered<unknown>>();
  private readonly readNow = (): Date => new Date(this.runtime.clocks.wall());

  /**
   * Polls at once.
   * @internal
   */
  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
  ) {
    const { maxEntries, outageGraceSeconds, logger } = settings;
    const outageGraceMs = outageGraceSeconds * MS_PER_SECOND;
    this.lease = new RevocationLease({ leaseMs: 0, outageGraceMs, keepsLapsedEntries: true }, runtime.clocks);
    this.apps = new KeyCache('app', this.lease, maxEntries);
    this.nodes = new KeyCache('node', this.lease, maxEntries);
    this.tokens = new TokenCache(this.lease, maxEntries);
    this.checks = createChecks(settings, runtime);
    const report = (error: unknown): void => this.checks.unexpectedErrors.report(error);
    const client = new ServiceClient(runtime, settings.ownKey);
    this.tokenCheck = new TokenCheck(settings, runtime, client, this.checks, this.lease);
    this.poller = new Poller(settings, runtime, client, this.lease, this.uses, this.checks);
    const onRemember = (): void => this.poller.start();
    this.questions = new Questions(settings, runtime, client, this.lease, this.checks, onRemember);
    this.exchanged = new ExchangedTokens(settings, runtime, client, this.lease, this.checks, onRemember);
    this.eventReader = new EventReader(settings, runtime, client, this.checks);
    this.endings = new Endings(runtime, this.lease, report);
    this.counts = new VerdictCounts(settings.onVerdict, report);
    observeCounts(() => this.readCounts());
    if (outageGraceMs > 0) {
      const detail = `While the authentication service is unreachable, a revoked credential may be accepted for up to ${outageGraceSeconds} s.`;
      logger.warn('verifier_outage_grace', { detail });
    }
    this.poller.start();
  }

  /**
   * Verifies the key of a calling service: `X-Platform-App-Id` and `X-Platform-App-Key`.
   * @throws {RefusedError} {MissingScopeError} {UnavailableError}
   */
  verifyApp(request: PresentedRequest, { scope }: AppDemands = {}): Promise<AppPrincipal> {
    return this.verify('app', request, { scope });
  }

  /**
   * Verifies the key of a node: `X-API-Key: node_id:api_key`.
   * @throws {RefusedError} {UnavailableError}
   */
  verifyNode(request: PresentedRequest): Promise<NodePrincipal> {
    return this.verify('node', request);
  }

  /**
   * Verifies the access token of a user: `Authorization: Bearer`. With `delegated`, also one that another service got on behalf
   * of a user; the principal then names it as `caller`.
   * @throws {RefusedError} {DelegationNotAcceptedError} {DelegationRequiredError} {MissingScopeError} {UnavailableError}
   */
  verifyUser(
    request: PresentedRequest,
    demands?: UserDemands & { delegated?: false | undefined },
  ): Promise<UserPrincipal>;
  verifyUser(request: PresentedRequest, demands: UserDemands & { delegated: 'only' }): Promise<DelegatedUserPrincipal>;
  verifyUser(request: PresentedRequest, demands: UserDemands): Promise<AnyUserPrincipal>;
  verifyUser(request: PresentedRequest, demands: UserDemands = NO_DELEGATION): Promise<AnyUserPrincipal> {
    return this.verify('user', request, { delegation: demands });
  }

  /**
   * Gets a token with which this service calls another one on behalf of the user of this request, as the map allows it
   * (`for_users`). Remembered until 80 % of its life, or until its session, its user or a pair of its chain ends.
   * @throws {RefusedError} when the token of the request is not valid any more {UnavailableError}
   */
  async tokenFor(request: PresentedRequest, target: string, demands: TokenDemands = {}): Promise<string> {
    try {
      this.readClaims(readToken(request).token);
      return await this.exchanged.get(request, target, demands);
    } catch (error) {
      if (!(error instanceof VerificationError)) this.checks.unexpectedErrors.report(error);
      const explained = toVerificationError(error);
      explained.requestId = readRequestId(request);
      throw explained;
    }
  }

  /**
   * As `verifyUser`, for a user who lives in this household, and has the role, if one is demanded.
   * @throws {RefusedError} {NotAMemberError} {MissingRoleError} {UnavailableError}
   */
  verifyMember(request: PresentedRequest, demands: MemberDemands): Promise<UserPrincipal> {
    return this.verify('user', request, { membership: demands });
  }

  /**
   * Verifies the credential of the first of these doors for which the request presents one.
   * @throws {RefusedError} also when it presents none {UnavailableError}
   */
  async verifyAny<D extends Door>(request: PresentedRequest, doors: Doors<D>): Promise<Principal<D>> {
    const door = this.findDoor(request, doors);
    if (door !== undefined) return this.verify(door, request);
    throw this.explain(doors[0], request, new RefusedError(createMissingCredential(doors)));
  }

  /**
   * As `verifyAny`, but undefined when the request presents no credential. A presented one must be valid.
   * @throws {RefusedError} {UnavailableError}
   */
  async verifyOptional<D extends Door>(request: PresentedRequest, doors: Doors<D>): Promise<Principal<D> | undefined> {
    const door = this.findDoor(request, doors);
    return door && this.verify(door, request);
  }

  /**
   * Calls back once, when the presented key, or the session or the user of the token, has ended: for connections that
   * outlive their request. The expiry of an access token does not end its session; but once the token has expired, any change
   * of its user or of a pair of its chain, and every reset, ends the connection: the client connects again with a new token.
   * @param demands of a household: also calls back when the user is no longer such a member of it; of delegation: those of the
   * route, without which a delegated token ends at once
   * @returns a watch, which must be closed when the connection ends
   * @throws {RefusedError} without a credential, or for a malformed one
   */
  onEnded(request: PresentedRequest, callback: () => void, demands: MemberDemands | UserDemands = {}): Watch {
    const membership = 'household' in demands ? demands : undefined;
    const delegation = 'household' in demands ? NO_DELEGATION : demands;
    const doors: Doors = membership ? ['user'] : EVERY_DOOR;
    const door = this.findDoor(request, doors);
    if (door === undefined) throw new RefusedError(createMissingCredential(doors));
    const isLive = async (): Promise<boolean | undefined> => {
      try {
        const { remembered, createQuestion } = this.lookUp(door, request, delegation);
        const found = findSufficient(remembered, membership);
        const identity = found ? found.identity : await this.questions.ask(createQuestion(), true);
        expectDelegation(identity, delegation);
        if (membership) expectMember(identity, membership);
        return true;
      } catch (error) {
        return error instanceof RefusedError ? false : undefined;
      }
    };
    return this.endings.add({ changes: this.listEnds(door, request), isLive, onEnded: callback });
  }

  /**
   * What happened, of the types that this service subscribes to: each event at least once, in order. Asking for the next
   * one acknowledges it; after an error in the loop it comes again, when the events are iterated again. Ends when the
   * verifier is closed. A later iterator takes over from an earlier one. Events revoke nothing: the guards do.
   * @throws {VerifierConfigurationError} while this service has no subscription
   */
  events(options: EventsOptions): AsyncGenerator<PlatformEvent, void, undefined> {
    return this.eventReader.read(options);
  }

  /** How many requests were accepted, refused and not verified (503) at each door, since the verifier was created. */
  readCounts(): Counts {
    return this.counts.read();
  }

  /** Stops polling and closes the connections. */
  close(): void {
    this.poller.close();
    this.eventReader.close();
    this.runtime.transport.close();
  }

  /** Keeps the credentials out of logs that print this object. */
  toJSON(): object {
    const { url, serviceName } = this.settings;
    return { url, serviceName };
  }

  [inspect.custom](): string {
    return `Verifier ${JSON.stringify(this.toJSON())}`;
  }

  /**
   * Applies a change that no poll reports.
   * @internal
   */
  protected applyChange({ kind, id }: Change): void {
    this.lease.evict(kind, id);
  }

  private async verify<D extends Door>(
    door: D,
    request: PresentedRequest,
    { scope, membership, delegation = NO_DELEGATION }: Demands = {},
  ): Promise<Principal<D>> {
    try {
      const { remembered: known, createQuestion } = this.lookUp(door, request, delegation);
      const remembered = findSufficient(known, membership);
      const identity = remembered ? remembered.identity : await this.questions.ask(createQuestion());
      expectDelegation(identity, delegation);
      // Asked without waiting: the answer is for later requests.
      if (remembered && this.isToBeAskedAgain(remembered)) this.questions.ask(createQuestion()).catch(() => undefined);
      if (scope !== undefined && identity.door === 'app' && !hasScope(identity, scope))
        throw new MissingScopeError(scope);
      if (membership) expectMember(identity, membership);
      this.recordUse(identity, remembered !== undefined, scope);
      this.counts.add(door, 'accepted');
      return identity;
    } catch (error) {
      throw this.explain(door, request, error);
    }
  }

  /** Turns every other error into a 503, because the credential could not be verified. */
  private explain(door: Door, request: PresentedRequest, error: unknown): VerificationError {
    if (!(error instanceof VerificationError)) this.checks.unexpectedErrors.report(error);
    const explained = toVerificationError(error);
    explained.requestId = readRequestId(request);
    this.counts.add(door, explained instanceof RefusedError ? 'refused' : 'unavailable');
    return explained;
  }

  private findDoor<D extends Door>(request: PresentedRequest, doors: Doors<D>): D | undefined {
    try {
      return findDoors(request, doors)[0];
    } catch {
      // Unreadable headers count as a credential: verifying it then tells the caller.
      return doors[0];
    }
  }

  /** @returns the kinds and ids whose change may end the credential */
  private listEnds(door: Door, request: PresentedRequest): readonly string[] {
    if (door !== 'user') return [`${door} ${(door === 'app' ? readApp(request) : readNode(request)).id}`];
    const { sessionId, userId, chain = [] } = this.readClaims(readToken(request).token);
    return [`session ${sessionId}`, `user ${userId}`, ...chain.map(({ appId }) => `app ${appId}`)];
  }

  private readClaims(token: string): TokenClaims {
    const claimed = this.tokenCheck.readClaims(token);
    if (!claimed) throw new RefusedError(REFUSALS.user);
    return claimed;
  }

  private lookUp<D extends Door>(door: D, request: PresentedRequest, delegation: UserDemands): LookUp<Principal<D>>;
  private lookUp(door: Door, request: PresentedRequest, delegation: UserDemands): LookUp<Identified> {
    if (door === 'app') return this.lookUpApp(request);
    return door === 'node' ? this.lookUpNode(request) : this.lookUpUser(request, delegation);
  }

  private lookUpApp(request: PresentedRequest): LookUp<AppPrincipal> {
    const credential = readApp(request);
    const { id } = credential;
    const { serviceName } = this.settings;
    const found = this.apps.find(id, toPresentedDigest(credential));
    return {
      remembered: found && this.apps.isUsable(found, this.readNow) ? found : undefined,
      createQuestion: () => ({
        credential,
        network: readNetwork(request),
        path: APP_PATH,
        request: this.createRequest(APP_PATH, request, credential.toHeaders(), { target: serviceName }),
        read: (body) => toAppPrincipal(body, id, serviceName),
        remember: (identity, term, ticket) => this.apps.remember(id, toVerifiedKey(credential, identity, term), ticket),
        forget: () => this.apps.forget(id, toPresentedDigest(credential)),
      }),
    };
  }

  private lookUpNode(request: PresentedRequest): LookUp<NodePrincipal> {
    const credential = readNode(request);
    const { id } = credential;
    const found = this.nodes.find(id, toPresentedDigest(credential));
    return {
      remembered: found && this.nodes.isUsable(found, this.readNow) ? found : undefined,
      createQuestion: () => ({
        credential,
        network: readNetwork(request),
        path: NODE_PATH,
        // The service accepts a node with targets only at these, so the question names this service.
        request: {
          ...this.createRequest(NODE_PATH, request, {
            ...credential.toHeaders(),
            'X-Platform-Target': this.settings.serviceName,
          }),
          presentsOwnKey: true,
        },
        read: (body) => toNodePrincipal(body, id),
        remember: (identity, term, ticket) =>
          this.nodes.remember(id, toVerifiedKey(credential, identity, term), ticket),
        forget: () => this.nodes.forget(id, toPresentedDigest(credential)),
      }),
    };
  }

  private lookUpUser(
    request: PresentedRequest,
    { delegated: acceptsDelegated = false }: UserDemands,
  ): LookUp<AnyUserPrincipal> {
    const credential = readToken(request);
    const { digest, token } = credential;
    const found = this.tokens.find(digest);
    const claimed: TokenClaims = found?.identity ?? this.readClaims(token);
    const isDelegated = claimed.chain !== undefined;
    // Only this header lets the service accept a delegated token.
    const target = isDelegated && acceptsDelegated && { 'X-Platform-Target': this.settings.serviceName };
    return {
      remembered: found && this.tokens.isUsable(found, this.runtime.clocks.wall()) ? found : undefined,
      createQuestion: () => ({
        credential,
        network: readNetwork(request),
        path: USER_PATH,
        isDelegationRefused: isDelegated && !acceptsDelegated,
        request: {
          ...this.createRequest(USER_PATH, request, { ...credential.toHeaders(), ...target }),
          presentsOwnKey: true,
        },
        check: (deadlineMs) => this.tokenCheck.check(token, deadlineMs),
        read: (body) => toUserPrincipal(body, claimed),
        remember: (identity, term, ticket) => this.tokens.remember(digest, identity, term, ticket),
        forget: () => this.tokens.forget(digest),
      }),
    };
  }

  /** Reports only what the service cannot see: uses that memory answered, and the scope that the call needed. */
  private recordUse(identity: Identified, isRemembered: boolean, scope: string | undefined): void {
    if (identity.door === 'user') return;
    const asked = identity.door === 'app' && identity.scopes !== undefined ? scope : undefined;
    if (asked === undefined && !isRemembered) return;
    const id = identity.door === 'app' ? identity.appId : identity.nodeId;
    const use = {
      kind: identity.door,
      id,
      ...(asked !== undefined && { scope: asked }),
      ...(this.questions.isOfPreviousKey(identity) && { previous: true as const }),
    };
    this.uses.add(use, this.runtime.clocks.monotonic());
  }

  /**
   * Whether to ask again before the yes may no longer be remembered, so that no request waits for the answer. Asks once
   * for each yes, and only if the credential outlives it.
   */
  private isToBeAskedAgain(remembered: Remembered<unknown>): boolean {
    if (!this.lease.isOlderThan(remembered.takenAtMs, ASK_AGAIN_AFTER_MS)) return false;
    if (remembered.maxAgeMs < MAX_REMEMBER_MS || this.askedAgain.has(remembered)) return false;
    this.askedAgain.add(remembered);
    return true;
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

/** Memory does not serve a demand for a membership with an answer that does not know: it may be that of an older replica. */
function findSufficient<Identity extends Identified>(
  remembered: Remembered<Identity> | undefined,
  membership: MemberDemands | undefined,
): Remembered<Identity> | undefined {
  return membership && remembered && !knowsHouseholds(remembered.identity) ? undefined : remembered;
}

function toVerifiedKey<Identity>(credential: Credential, identity: Identity, { maxAgeMs, endsAtWallMs }: Term) {
  return { digest: toStoredDigest(credential), identity, maxAgeMs, expiresAt: new Date(endsAtWallMs) };
}
