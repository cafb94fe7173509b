import { randomUUID } from 'node:crypto';
import { RefusedError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import type { ServiceAnswer, ServiceRequest, Transport } from '../src/transport.js';
import { Verifier } from '../src/verifier.js';
import { VerifierCore } from '../src/verifier-core.js';
import { Simulation } from './simulation.js';

const NODE_ID = '01985f4e-7c3a-7b52-9d1e-000000000b01';
const POLL_MS = 200;
const LATENCY_MS = 5;

/** Knows one node, and reports a change or a reset with the next poll. */
class OneNodeService implements Transport {
  isValid = true;
  isReachable = true;
  asked = 0;
  next: { reset?: boolean; changes?: readonly { kind: string; id: string }[] } = {};

  constructor(private readonly simulation: Simulation) {}

  close(): void {
    // No connection is open.
  }

  send({ url }: ServiceRequest): Promise<ServiceAnswer> {
    return new Promise((resolve) => {
      const status = this.isReachable ? 200 : 503;
      const answer = url.endsWith('/internal/changes') ? this.answerPoll(status) : this.answerQuestion(status);
      this.simulation.at(this.simulation.nowMs + LATENCY_MS, () => resolve(answer));
    });
  }

  private answerPoll(status: number): ServiceAnswer {
    const body = { cursor: 'a', reset: false, lease_ms: 600, fresh_for_ms: 500, changes: [], ...this.next };
    if (status === 200) this.next = {};
    return { status, headers: {}, body: JSON.stringify(body) };
  }

  private answerQuestion(status: number): ServiceAnswer {
    this.asked += 1;
    if (status !== 200) return { status, headers: {}, body: '' };
    if (!this.isValid) return { status: 401, headers: {}, body: '{"code":"invalid_node_credentials"}' };
    const headers = { 'x-platform-remember': 'yes', 'x-platform-expires-in': '60', 'x-platform-fresh-for-ms': '500' };
    return { status, headers, body: JSON.stringify({ valid: true, node_id: NODE_ID, household_id: randomUUID() }) };
  }
}

describe('a connection that outlives its request', () => {
  const request = { headers: { 'x-api-key': `${NODE_ID}:key` } };
  let simulation: Simulation;
  let service: OneNodeService;
  let verifier: VerifierCore;
  let ended: number[];

  beforeEach(async () => {
    simulation = new Simulation();
    service = new OneNodeService(simulation);
    ended = [];
    const own = { url: 'http://auth.test', appId: randomUUID(), appKey: 'pa_app_own', serviceName: 'recipes' };
    const settings = toSettings({ ...own, maxEntries: 10, logger: { warn: () => undefined } });
    verifier = new VerifierCore(settings, simulation.createRuntime(service));
    await simulation.run(50);
    const accepted = verifier.verifyNode(request);
    await simulation.run(100);
    await accepted;
  });

  afterEach(() => verifier.close());

  const watch = () => verifier.onEnded(request, () => ended.push(simulation.nowMs));
  const runFor = (ms: number) => simulation.run(simulation.nowMs + ms);

  it('is told once, within two polls of the revocation of its key', async () => {
    watch();
    await runFor(1_000);
    expect([ended, service.asked]).toEqual([[], 1]);
    service.isValid = false;
    service.next = { changes: [{ kind: 'node', id: NODE_ID.toUpperCase() }] };
    const revokedMs = simulation.nowMs;
    await runFor(2 * POLL_MS);
    expect(ended).toHaveLength(1);
    expect(ended[0]! - revokedMs).toBeLessThan(2 * POLL_MS);
    service.next = { reset: true };
    await runFor(2 * POLL_MS);
    expect(ended).toHaveLength(1);
  });

  it('stays after changes that do not end the credential: they are a reason to ask', async () => {
    watch();
    service.next = { changes: [{ kind: 'node', id: NODE_ID }] };
    await runFor(2 * POLL_MS);
    service.next = { reset: true };
    await runFor(2 * POLL_MS);
    expect([ended, service.asked]).toEqual([[], 3]);
  });

  it('is told after an outage in which its key was revoked', async () => {
    watch();
    service.next = { changes: [{ kind: 'node', id: NODE_ID }] };
    await runFor(POLL_MS);
    service.isReachable = false;
    service.isValid = false;
    service.next = { changes: [{ kind: 'node', id: NODE_ID }] };
    await runFor(5_000);
    expect(ended).toEqual([]);
    service.isReachable = true;
    await runFor(3_000);
    expect(ended).toHaveLength(1);
  });

  it('is not told any more when it was closed', async () => {
    watch().close();
    service.isValid = false;
    service.next = { changes: [{ kind: 'node', id: NODE_ID }] };
    await runFor(2 * POLL_MS);
    expect(ended).toEqual([]);
  });

  it('is told at once when the credential ended between its request and the call of onEnded', async () => {
    service.isValid = false;
    service.next = { changes: [{ kind: 'node', id: NODE_ID }] };
    await runFor(2 * POLL_MS);
    watch();
    await runFor(2 * LATENCY_MS);
    expect(ended).toHaveLength(1);
  });

  it('cannot be opened without a credential', () => {
    expect(() => verifier.onEnded({ headers: {} }, () => undefined)).toThrow(RefusedError);
  });
});

describe('the verifier of a test', () => {
  it('tells a connection that its session was revoked', async () => {
    const auth = Verifier.forTests();
    const alice = auth.issueUser();
    const told = new Promise<string>((resolve) => auth.onEnded(alice, () => resolve('ended')));
    auth.revoke(alice);
    expect(await told).toBe('ended');
    auth.close();
  });

  it('tells a connection on behalf of a user when the pair of its caller was revoked, and when the session ended', async () => {
    const auth = Verifier.forTests();
    const alice = auth.issueUser();
    const callers = ['meals', 'mail'].map((caller) =>
      auth.issueDelegated({ caller, scopes: ['read'], user: alice.principal }),
    );
    const told: string[] = [];
    const [ofMeals, ofMail] = callers.map(
      (delegated) =>
        new Promise<void>((resolve) => {
          const tell = (): void => {
            told.push(delegated.principal.caller);
            resolve();
          };
          auth.onEnded(delegated, tell, { delegated: true, scope: 'read' });
        }),
    );
    auth.revoke(callers[0]!);
    await ofMeals;
    expect(told).toEqual(['meals']);
    auth.revoke(alice);
    await ofMail;
    expect(told).toEqual(['meals', 'mail']);
    auth.close();
  });

  it('ends a connection on behalf of a user at once where nothing says that it is accepted', async () => {
    const auth = Verifier.forTests();
    const delegated = auth.issueDelegated();
    await new Promise<void>((resolve) => auth.onEnded(delegated, resolve));
    auth.close();
  });

  it('tells a connection about a household when its user was demoted, and when the user was removed', async () => {
    const auth = Verifier.forTests();
    const household = randomUUID();
    const alice = auth.issueUser({ households: [{ id: household, role: 'admin' }] });
    const told: string[] = [];
    const watch = (role?: 'admin') =>
      new Promise<void>((resolve) => {
        const tell = (): void => {
          told.push(role ?? 'member');
          resolve();
        };
        auth.onEnded(alice, tell, { household, role });
      });
    const [asAdmin, asMember] = [watch('admin'), watch()];
    auth.setHouseholds(alice, [{ id: household, role: 'member' }]);
    await asAdmin;
    expect(told).toEqual(['admin']);
    auth.setHouseholds(alice, []);
    await asMember;
    expect(told).toEqual(['admin', 'member']);
    auth.close();
  });
});

describe('the counters of a verifier', () => {
  it('count verdicts by door, also for the hook, which changes no verdict when it throws', async () => {
    const seen: string[] = [];
    const auth = Verifier.forTests({
      onVerdict: (door, verdict) => {
        seen.push(`${door} ${verdict}`);
        throw new Error('of the hook');
      },
    });
    const [node, user] = [auth.issueNode(), auth.issueUser()];
    await auth.verifyNode(node);
    await expect(auth.verifyNode({ headers: {} })).rejects.toThrow(RefusedError);
    await auth.verifyAny(user, ['app', 'user']);
    await expect(auth.verifyAny({ headers: {} }, ['app', 'user'])).rejects.toThrow(RefusedError);
    await expect(auth.verifyOptional({ headers: {} }, ['app'])).resolves.toBeUndefined();
    await expect(auth.verifyApp(auth.issueApp({ scopes: [] }), { scope: 'a' })).rejects.toMatchObject({ status: 403 });
    auth.setAvailable(false);
    await expect(auth.verifyUser(user)).rejects.toMatchObject({ status: 503 });
    expect(auth.readCounts()).toEqual({
      app: { accepted: 0, refused: 2, unavailable: 0 },
      node: { accepted: 1, refused: 1, unavailable: 0 },
      user: { accepted: 1, refused: 0, unavailable: 1 },
    });
    expect(seen).toEqual([
      'node accepted',
      'node refused',
      'user accepted',
      'app refused',
      'app refused',
      'user unavailable',
    ]);
    auth.close();
  });
});
