import { randomUUID } from 'node:crypto';
import { RefusedError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import type { ServiceAnswer, ServiceRequest, Transport } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';
import { Simulation } from './simulation.js';

const ATTACKER = '203.0.113.9';
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
/** The rate that one client reached against a service with a million nodes. */
const FLOOD_PER_MS = 2;
/** So slow that one client keeps more questions waiting than a door allows. */
const SERVICE_MS = 150;

const SERVICE_NAME = 'recipes';

/** Knows some nodes and apps. A question takes time, a poll none. */
class SlowService implements Transport {
  /** The ids of nodes and apps. */
  readonly valid = new Set<string>();
  readonly refusedKeys = new Set<string>();
  remember: 'yes' | 'no' = 'yes';
  asked = 0;

  constructor(private readonly simulation: Simulation) {}

  close(): void {
    // No connection is open.
  }

  send({ url, headers }: ServiceRequest): Promise<ServiceAnswer> {
    if (url.endsWith('/internal/changes')) {
      const body = { cursor: 'a', reset: false, lease_ms: 30_000, fresh_for_ms: 29_000, changes: [] };
      return Promise.resolve({ status: 200, headers: {}, body: JSON.stringify(body) });
    }
    this.asked += 1;
    const answer = url.endsWith('/internal/validate-app')
      ? () => this.answerApp(headers['X-Platform-App-Id'] ?? '')
      : () => this.answerNode(headers['X-API-Key'] ?? '');
    return new Promise((resolve) => {
      this.simulation.at(this.simulation.nowMs + SERVICE_MS, () => resolve(answer()));
    });
  }

  private answerNode(presented: string): ServiceAnswer {
    const [nodeId = '', key = ''] = presented.split(':');
    if (!this.valid.has(nodeId) || this.refusedKeys.has(key)) return refuse('invalid_node_credentials');
    return this.accept({ node_id: nodeId, household_id: HOUSEHOLD });
  }

  private answerApp(appId: string): ServiceAnswer {
    if (!this.valid.has(appId)) return refuse('invalid_app_credentials');
    return this.accept({ app_id: appId, caller: 'planner', target: SERVICE_NAME });
  }

  private accept(identity: object): ServiceAnswer {
    const headers = {
      'x-platform-remember': this.remember,
      'x-platform-expires-in': '60',
      'x-platform-fresh-for-ms': '29000',
    };
    return { status: 200, headers, body: JSON.stringify({ valid: true, ...identity }) };
  }
}

const refuse = (code: string): ServiceAnswer => ({ status: 401, headers: {}, body: JSON.stringify({ code }) });

describe('a verifier under a flood of random keys from one address', () => {
  let simulation: Simulation;
  let service: SlowService;
  let verifier: VerifierCore;

  beforeEach(() => {
    simulation = new Simulation();
    service = new SlowService(simulation);
    verifier = createVerifier(1_000);
  });

  afterEach(() => verifier.close());

  function createVerifier(maxEntries: number): VerifierCore {
    const own = {
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: SERVICE_NAME,
    };
    return new VerifierCore(
      toSettings({ ...own, maxEntries, logger: { warn: () => undefined } }),
      simulation.createRuntime(service),
    );
  }

  function restartWith(maxEntries: number): void {
    verifier.close();
    verifier = createVerifier(maxEntries);
  }

  const present = (nodeId: string, ip: string, key = 'key'): Promise<unknown> =>
    verifier.verifyNode({ headers: { 'x-api-key': `${nodeId}:${key}` }, ip });
  const presentApp = (appId: string, ip: string): Promise<unknown> =>
    verifier.verifyApp({ headers: { 'x-platform-app-id': appId, 'x-platform-app-key': 'key' }, ip });

  /**
   * Starts a flood.
   * @returns how many requests were refused, and how many got no verdict
   */
  function flood(forMs: number) {
    const answers = { refused: 0, unavailable: 0 };
    for (let ms = 0; ms < forMs; ms += 1) {
      simulation.at(simulation.nowMs + ms, () => {
        for (let i = 0; i < FLOOD_PER_MS; i += 1)
          present(randomUUID(), ATTACKER).catch((error: unknown) => {
            answers[error instanceof RefusedError ? 'refused' : 'unavailable'] += 1;
          });
      });
    }
    return answers;
  }

  /** @returns the accepted nodes, or other callers, each with the time that it waited */
  function presentAll(ids: readonly string[], atMs: number, everyMs: number, ip: string, presentOne = present) {
    const waited: number[] = [];
    ids.forEach((id, index) => {
      const sentMs = atMs + index * everyMs;
      simulation.at(sentMs, () => {
        presentOne(id, ip).then(
          () => waited.push(simulation.nowMs - sentMs),
          () => undefined,
        );
      });
    });
    return waited;
  }

  function createIds(count: number): string[] {
    const ids = Array.from({ length: count }, () => randomUUID());
    for (const id of ids) service.valid.add(id);
    return ids;
  }

  it('answers new nodes from another address, one by one and all at once', async () => {
    const attack = flood(2_000);
    const single = presentAll(createIds(80), 500, 10, '198.51.100.1');
    const together = presentAll(createIds(80), 1_500, 0, '2001:db8:1:2::3');
    await simulation.run(6_000);
    expect(attack.unavailable).toBeGreaterThan(attack.refused);
    expect(single.length).toBeGreaterThanOrEqual(76);
    expect(together.length).toBeGreaterThanOrEqual(76);
  });

  it('answers every node that was valid recently, also at the address of the attacker', async () => {
    const nodes = createIds(60);
    presentAll(nodes, 0, 0, ATTACKER);
    // After a minute unused, a remembered key has ended, and the service is asked.
    await simulation.run(61_000);
    flood(2_000);
    const waited = presentAll(nodes, 62_000, 0, ATTACKER);
    await simulation.run(66_000);
    expect(waited).toHaveLength(60);
  });

  it('answers every node that was valid recently also when nothing was remembered: a reset came, or its key is being rotated', async () => {
    service.remember = 'no';
    const nodes = createIds(60);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(1_000);
    flood(2_000);
    const waited = presentAll(nodes, 2_000, 0, ATTACKER);
    await simulation.run(6_000);
    expect(waited).toHaveLength(60);
  });

  it('answers every node that was valid recently also after as many apps as one door remembers were accepted', async () => {
    restartWith(60);
    const nodes = createIds(60);
    presentAll(nodes, 0, 0, ATTACKER);
    presentAll(createIds(60), 500, 0, ATTACKER, presentApp);
    await simulation.run(62_000);
    flood(2_000);
    const waited = presentAll(nodes, 63_000, 0, ATTACKER);
    await simulation.run(67_000);
    expect(waited).toHaveLength(60);
  });

  it('asks again about a node in use before its end, so that none of its requests waits', async () => {
    const nodes = createIds(60);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(50_000);
    flood(1_000);
    const used = [50_500, 61_000, 65_000].map((atMs) => presentAll(nodes, atMs, 0, ATTACKER));
    await simulation.run(70_000);
    for (const waited of used) expect(waited).toEqual(nodes.map(() => 0));
  });

  it('drops what it remembers when it asks again and the service refuses', async () => {
    const nodes = createIds(1);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(200);
    service.valid.clear();
    presentAll(nodes, 50_000, 0, ATTACKER);
    const later = presentAll(nodes, 51_000, 0, ATTACKER);
    await simulation.run(52_000);
    expect([later, service.asked]).toEqual([[], 3]);
  });

  it('drops what it remembers when the service refuses it, also after others were accepted more recently', async () => {
    restartWith(2);
    const [used = '', unused = '', newest = ''] = createIds(3);
    // The key in use stays remembered, and the other one makes room.
    presentAll([used, unused], 0, 500, ATTACKER);
    presentAll([used, newest], 1_000, 500, ATTACKER);
    await simulation.run(2_000);
    service.valid.clear();
    const renewed = presentAll([used], 50_000, 0, ATTACKER);
    const later = presentAll([used], 51_000, 0, ATTACKER);
    await simulation.run(52_000);
    expect([renewed, later, service.asked]).toEqual([[0], [], 5]);
  });

  it('remembers both keys of a node, and goes on with the new one when the old one is refused', async () => {
    const nodes = createIds(1);
    const presentOld = (nodeId: string, ip: string) => present(nodeId, ip, 'old');
    presentAll(nodes, 0, 0, ATTACKER, presentOld);
    presentAll(nodes, 500, 0, ATTACKER);
    await simulation.run(1_000);
    service.refusedKeys.add('old');
    // Near the end of what it remembers, the verifier asks again about each key.
    presentAll(nodes, 50_000, 0, ATTACKER, presentOld);
    const old = presentAll(nodes, 50_400, 0, ATTACKER, presentOld);
    const current = presentAll(nodes, 50_400, 0, ATTACKER);
    await simulation.run(51_000);
    expect([old, current, service.asked]).toEqual([[], [0], 5]);
  });
});
