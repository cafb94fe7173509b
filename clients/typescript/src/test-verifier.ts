import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import type { Change } from '../../../packages/lease/src/change-feed.js';
import { DELEGATED_TYPE } from './delegation.js';
import type { PlatformEvent } from './platform-event.js';
import { toSettings, type VerifierOptions } from './options.js';
import type {
  AnyUserPrincipal,
  AppPrincipal,
  DelegatedUserPrincipal,
  Membership,
  NodePrincipal,
  Principal,
  UserPrincipal,
} from './principals.js';
import { createSystemRuntime } from './runtime.js';
import { ConnectionError, type ServiceAnswer, type ServiceRequest, type Transport } from './transport.js';
import { VerifierCore } from './verifier-core.js';

export interface TestVerifierOptions {
  /** The name of the service under test. Default: service-under-test. */
  readonly serviceName?: string;
  /** As in the options of {@link Verifier}. */
  readonly onVerdict?: VerifierOptions['onVerdict'];
}

/** A credential of a test: the headers that present it, and the caller that it identifies. */
export interface TestCredential<Identity> {
  readonly headers: Readonly<Record<string, string>>;
  readonly principal: Identity;
}

interface Claims {
  readonly sid: string;
  readonly act?: { readonly client_id: string };
}

interface Issued {
  readonly digest: Buffer;
  readonly body: Readonly<Record<string, unknown>>;
}

const computeDigest = (secret: string): Buffer => hash('sha256', secret, 'buffer');
const generateSecret = (prefix = ''): string => prefix + randomBytes(32).toString('base64url');
/** No key signs it: the service in memory judges it. */
function createDelegatedToken(claims: object): string {
  return `${encode({ alg: 'ES256', typ: DELEGATED_TYPE })}.${encode(claims)}.${generateSecret()}`;
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A verifier with an authentication service in memory: the real verdicts, without a network. */
export class TestVerifier extends VerifierCore {
  private readonly service: MemoryService;
  private readonly serviceName: string;

  /** @internal */
  constructor({ serviceName = 'service-under-test', onVerdict }: TestVerifierOptions) {
    const service = new MemoryService(serviceName);
    const options = { url: 'http://auth.test', appId: randomUUID(), appKey: 'pa_app_test', serviceName, onVerdict };
    // Few, because a cache allocates all its entries when it is made: a tenth of a second for each test.
    super(toSettings({ ...options, maxEntries: 1_000, logger: { warn: () => undefined } }), {
      ...createSystemRuntime(),
      transport: service,
    });
    this.service = service;
    this.serviceName = serviceName;
  }

  /** Issues a key of a calling service for the service under test. Without scopes it is not restricted. */
  issueApp({
    caller = 'caller',
    target = this.serviceName,
    scopes,
  }: { caller?: string; target?: string; scopes?: readonly string[] } = {}): TestCredential<AppPrincipal> {
    const appId = randomUUID();
    const key = generateSecret('test_app_');
    const restriction = scopes && { scopes };
    this.service.issue(`app ${appId}`, key, { app_id: appId, caller, target, ...restriction });
    const headers = { 'X-Platform-App-Id': appId, 'X-Platform-App-Key': key };
    return { headers, principal: { door: 'app', appId, caller, target, ...restriction } };
  }

  /** Issues a key of a node. */
  issueNode({ householdId = randomUUID() }: { householdId?: string } = {}): TestCredential<NodePrincipal> {
    const nodeId = randomUUID();
    const key = generateSecret('test_node_');
    this.service.issue(`node ${nodeId}`, key, { node_id: nodeId, household_id: householdId });
    const principal = { door: 'node', nodeId, householdId: householdId.toLowerCase() } as const;
    return { headers: { 'X-API-Key': `${nodeId}:${key}` }, principal };
  }

  /** Issues an access token of a user, for a session of its own. Without households, those of the user stay. */
  issueUser({
    userId = randomUUID(),
    email = 'user@example.org',
    amr = ['pwd'],
    households,
  }: {
    userId?: string;
    email?: string;
    amr?: readonly string[];
    households?: readonly Membership[];
  } = {}): TestCredential<UserPrincipal> {
    const sessionId = randomUUID();
    const claims = { sub: userId, sid: sessionId, email, amr };
    const token = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}.${generateSecret()}`;
    this.service.issue(`session ${sessionId}`, token, { user_id: userId, session_id: sessionId, email, amr });
    const known = { userId: userId.toLowerCase(), sessionId, email, amr };
    if (households) this.service.setHouseholds(known.userId, households.map(toCanonical));
    const principal = {
      door: 'user',
      ...known,
      households: this.service.readHouseholds(known.userId),
      caller: null,
    } as const;
    return { headers: { Authorization: `Bearer ${token}` }, principal };
  }

  /** Issues a token with which a service calls on behalf of a user, by default with a session of its own. */
  issueDelegated({
    caller = 'caller',
    scopes = [],
    user = this.issueUser().principal,
  }: {
    caller?: string;
    scopes?: readonly string[];
    user?: UserPrincipal;
  } = {}): TestCredential<DelegatedUserPrincipal> {
    const { userId, sessionId, amr } = user;
    const appId = randomUUID();
    const act = { sub: caller, client_id: appId };
    const token = createDelegatedToken({ sub: userId, sid: sessionId, act });
    const body = { user_id: userId, session_id: sessionId, amr, caller, scopes, act };
    this.service.issue(`session ${sessionId} app ${appId}`, token, body);
    const chain = [{ service: caller, appId }];
    return {
      headers: { Authorization: `Bearer ${token}` },
      principal: { door: 'user', userId, sessionId, amr, caller, scopes, chain },
    };
  }

  /** Lets the user of the token live in these households, with each role, and in no other one. */
  setHouseholds({ principal }: TestCredential<UserPrincipal>, households: readonly Membership[]): void {
    this.service.setHouseholds(principal.userId, households.map(toCanonical));
    this.applyChange({ kind: 'user', id: principal.userId });
  }

  /** Revokes a key, ends the session of a token, or revokes the pair of the caller of a delegated one. */
  revoke({ principal }: TestCredential<Principal | AnyUserPrincipal>): void {
    const change = toChange(principal);
    this.service.revoke(`${change.kind} ${change.id}`);
    this.applyChange(change);
  }

  /**
   * Delivers an event to `events`.
   * @returns resolved when the service under test has acknowledged it
   */
  deliver(type: string, subject: PlatformEvent['subject'], data: PlatformEvent['data'] = {}): Promise<void> {
    const id = `${randomUUID()}:${type}`;
    return this.service.events.add({ id, type, time: new Date().toISOString(), subject, data });
  }

  /**
   * Makes `events` call `onReset`.
   * @returns resolved when that has succeeded
   */
  deliverReset(): Promise<void> {
    return this.service.events.add(undefined);
  }

  /** @param isAvailable false makes every verification fail with 503, until the next call with true */
  setAvailable(isAvailable: boolean): void {
    this.service.isAvailable = isAvailable;
  }
}

function toCanonical({ id, role }: Membership): Membership {
  return { id: id.toLowerCase(), role };
}

/** What the feed of changes reports when the credential ends. */
function toChange(principal: Principal | AnyUserPrincipal): Change {
  if (principal.door === 'app') return { kind: 'app', id: principal.appId };
  if (principal.door === 'node') return { kind: 'node', id: principal.nodeId };
  const [link] = principal.caller === null ? [] : principal.chain;
  return link ? { kind: 'app', id: link.appId } : { kind: 'session', id: principal.sessionId };
}

interface Delivery {
  readonly cursor: string;
  /** Undefined: a reset. */
  readonly event: object | undefined;
  readonly onAcknowledged: () => void;
}

/** Events that were delivered, until they are acknowledged. */
class MemoryEvents {
  private count = 0;
  private isClosed = false;
  private waiting: readonly Delivery[] = [];
  private wake = (): void => undefined;

  add(event: object | undefined): Promise<void> {
    return new Promise((onAcknowledged) => {
      this.count += 1;
      this.waiting = [...this.waiting, { cursor: String(this.count), event, onAcknowledged }];
      this.wake();
    });
  }

  close(): void {
    this.isClosed = true;
    this.wake();
  }

  /** Waits until there is something to answer. */
  async answer(after: string | undefined): Promise<ServiceAnswer> {
    const isDone = ({ cursor }: Delivery): boolean => Number(cursor) <= Number(after ?? 0);
    for (const { onAcknowledged } of this.waiting.filter(isDone)) onAcknowledged();
    this.waiting = this.waiting.filter((delivery) => !isDone(delivery));
    while (this.waiting.length === 0 && !this.isClosed) await new Promise<void>((resolve) => (this.wake = resolve));
    const [first, ...others] = this.waiting;
    const reset = first !== undefined && first.event === undefined;
    const end = others.findIndex(({ event }) => event === undefined);
    const told = this.waiting.slice(0, end === -1 ? undefined : end + 1);
    const events = reset ? [] : told.map(({ event, cursor }) => ({ ...event, cursor }));
    const body = { events, more: false, reset, ...(reset && { cursor: first.cursor }) };
    return { status: 200, headers: {}, body: JSON.stringify(body) };
  }
}

/** The routes that a verifier asks, over credentials in memory. Grants no lease, so nothing is remembered. */
class MemoryService implements Transport {
  constructor(private readonly serviceName: string) {}

  isAvailable = true;
  readonly events = new MemoryEvents();
  private readonly issued = new Map<string, Issued>();
  private readonly households = new Map<string, readonly Membership[]>();

  issue(name: string, secret: string, body: Issued['body']): void {
    this.issued.set(name, { digest: computeDigest(secret), body });
  }

  /** @param name of the whole credential, or of a part of a delegated one */
  revoke(name: string): void {
    for (const issued of this.issued.keys()) if (` ${issued} `.includes(` ${name} `)) this.issued.delete(issued);
  }

  setHouseholds(userId: string, households: readonly Membership[]): void {
    this.households.set(userId, households);
  }

  readHouseholds(userId: string): readonly Membership[] {
    return this.households.get(userId) ?? [];
  }

  close(): void {
    this.isAvailable = false;
    this.events.close();
  }

  send({ url, headers, body = '{}' }: ServiceRequest): Promise<ServiceAnswer> {
    if (!this.isAvailable) return Promise.reject(new ConnectionError('The service under test is cut off'));
    const { pathname } = new URL(url);
    if (pathname === '/internal/events') return this.events.answer((JSON.parse(body) as { after?: string }).after);
    if (pathname === '/internal/validate-app') {
      const { target } = JSON.parse(body) as { target: string };
      const found = this.find(`app ${headers['X-Platform-App-Id']?.toLowerCase()}`, headers['X-Platform-App-Key']);
      return answer(found?.body.target === target ? found : undefined, 'invalid_app_credentials');
    }
    if (pathname === '/internal/validate-node') {
      const header = headers['X-API-Key'] ?? '';
      const colon = header.indexOf(':');
      const found = this.find(`node ${header.slice(0, colon).toLowerCase()}`, header.slice(colon + 1));
      return answer(found, 'invalid_node_credentials');
    }
    if (pathname === '/internal/validate-user') {
      const found = this.findToken((headers.Authorization ?? '').slice('Bearer '.length));
      if (found && 'act' in found.body) return answer(found, 'invalid_access_token');
      const households = this.readHouseholds(String(found?.body.user_id).toLowerCase());
      return answer(found && { ...found, body: { ...found.body, households } }, 'invalid_access_token');
    }
    if (pathname === '/internal/token') return this.exchange(new URLSearchParams(body), headers['X-Platform-App-Id']);
    const changes = { cursor: 'test', reset: true, lease_ms: 0, fresh_for_ms: 0, changes: [] };
    return Promise.resolve({ status: 200, headers: {}, body: JSON.stringify(changes) });
  }

  private findToken(token: string): Issued | undefined {
    const { sid, act } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Claims;
    return this.find(act ? `session ${sid} app ${act.client_id}` : `session ${sid}`, token);
  }

  /** Allows every target and scope. */
  private exchange(form: URLSearchParams, appId = ''): Promise<ServiceAnswer> {
    const subject = this.findToken(form.get('subject_token') ?? '')?.body;
    const refusal = { error: 'invalid_request', code: 'invalid_subject_token' };
    if (!subject) return Promise.resolve({ status: 400, headers: {}, body: JSON.stringify(refusal) });
    const act = { sub: this.serviceName, client_id: appId, ...('act' in subject && { act: subject.act }) };
    const [aud, scope] = [form.get('audience'), form.get('scope') ?? ''];
    const token = createDelegatedToken({ sub: subject.user_id, sid: subject.session_id, aud, scope, act });
    const body = JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 300, scope });
    return Promise.resolve({ status: 200, headers: {}, body });
  }

  private find(name: string, secret = ''): Issued | undefined {
    const issued = this.issued.get(name);
    return issued && timingSafeEqual(issued.digest, computeDigest(secret)) ? issued : undefined;
  }
}

function answer(issued: Issued | undefined, refusal: string): Promise<ServiceAnswer> {
  if (!issued) return Promise.resolve({ status: 401, headers: {}, body: JSON.stringify({ code: refusal }) });
  const headers = { 'x-platform-remember': 'no', 'x-platform-fresh-for-ms': '60000' };
  return Promise.resolve({ status: 200, headers, body: JSON.stringify({ valid: true, ...issued.body }) });
}
