import { randomUUID } from 'node:crypto';
import { RefusedError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import type { ServiceAnswer, ServiceRequest, Transport } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';
import { Simulation } from './simulation.js';

const ATTACKER = '203.0.113.9';
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
/** As measured before a service with a million nodes. */
const FLOOD_PER_MS = 2;
/** So slow that one client keeps more questions waiting than a door has. */
const SERVICE_MS = 150;

/** Knows some nodes; takes its time for each question, and none for a poll. */
class SlowService implements Transport {
  readonly valid = new Set<string>();
  remember: 'yes' | 'no' = 'yes';
  asked = 0;

  constructor(private readonly simulation: Simulation) {}

  close(): void {
    // Nothing is open.
  }

  send({ url, headers }: ServiceRequest): Promise<ServiceAnswer> {
    if (url.endsWith('/internal/changes')) {
      const body = { cursor: 'a', reset: false, lease_ms: 30_000, fresh_for_ms: 29_000, changes: [] };
      return Promise.resolve({ status: 200, headers: {}, body: JSON.stringify(body) });
    }
    this.asked += 1;
    const [nodeId = ''] = (headers['X-API-Key'] ?? '').split(':');
    return new Promise((resolve) => {
      this.simulation.at(this.simulation.nowMs + SERVICE_MS, () => resolve(this.answer(nodeId)));
    });
  }

  private answer(nodeId: string): ServiceAnswer {
    if (!this.valid.has(nodeId)) return { status: 401, headers: {}, body: '{"code":"invalid_node_credentials"}' };
    const headers = {
      'x-platform-remember': this.remember,
      'x-platform-expires-in': '60',
      'x-platform-fresh-for-ms': '29000',
    };
    return { status: 200, headers, body: JSON.stringify({ valid: true, node_id: nodeId, household_id: HOUSEHOLD }) };
  }
}

describe('a verifier under a flood of random keys from one address', () => {
  let simulation: Simulation;
  let service: SlowService;
  let verifier: VerifierCore;

  beforeEach(() => {
    simulation = new Simulation();
    service = new SlowService(simulation);
    const own = {
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: 'recipes',
    };
    verifier = new VerifierCore(
      toSettings({ ...own, maxEntries: 1_000, logger: { warn: () => undefined } }),
      simulation.createRuntime(service),
    );
  });

  afterEach(() => verifier.close());

  const present = (nodeId: string, ip: string) =>
    verifier.verifyNode({ headers: { 'x-api-key': `${nodeId}:key` }, ip });

  /** From now on. @returns how many were refused, and how many turned away without a verdict */
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

  /** @returns the nodes that were accepted, with the time that each waited */
  function presentAll(nodeIds: readonly string[], atMs: number, everyMs: number, ip: string) {
    const waited: number[] = [];
    nodeIds.forEach((nodeId, index) => {
      const sentMs = atMs + index * everyMs;
      simulation.at(sentMs, () => {
        present(nodeId, ip).then(
          () => waited.push(simulation.nowMs - sentMs),
          () => undefined,
        );
      });
    });
    return waited;
  }

  function createNodes(count: number): string[] {
    const nodeIds = Array.from({ length: count }, () => randomUUID());
    for (const nodeId of nodeIds) service.valid.add(nodeId);
    return nodeIds;
  }

  it('answers new nodes from another address, one by one and all at once', async () => {
    const attack = flood(2_000);
    const single = presentAll(createNodes(80), 500, 10, '198.51.100.1');
    const together = presentAll(createNodes(80), 1_500, 0, '2001:db8:1:2::3');
    await simulation.run(6_000);
    expect(attack.unavailable).toBeGreaterThan(attack.refused);
    expect(single.length).toBeGreaterThanOrEqual(76);
    expect(together.length).toBeGreaterThanOrEqual(76);
  });

  it('answers every node that was valid recently, also at the address of the attacker', async () => {
    const nodes = createNodes(60);
    presentAll(nodes, 0, 0, ATTACKER);
    // Not used since: what is remembered has ended, and the service is asked.
    await simulation.run(61_000);
    flood(2_000);
    const waited = presentAll(nodes, 62_000, 0, ATTACKER);
    await simulation.run(66_000);
    expect(waited).toHaveLength(60);
  });

  it('answers every node that was valid recently also when nothing was remembered: a reset came, or its key is being rotated', async () => {
    service.remember = 'no';
    const nodes = createNodes(60);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(1_000);
    flood(2_000);
    const waited = presentAll(nodes, 2_000, 0, ATTACKER);
    await simulation.run(6_000);
    expect(waited).toHaveLength(60);
  });

  it('asks again about a node in use before its end, so that none of its requests waits', async () => {
    const nodes = createNodes(60);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(50_000);
    flood(1_000);
    const used = [50_500, 61_000, 65_000].map((atMs) => presentAll(nodes, atMs, 0, ATTACKER));
    await simulation.run(70_000);
    for (const waited of used) expect(waited).toEqual(nodes.map(() => 0));
  });

  it('drops what it remembers when it asks again and the service refuses', async () => {
    const nodes = createNodes(1);
    presentAll(nodes, 0, 0, ATTACKER);
    await simulation.run(200);
    service.valid.clear();
    presentAll(nodes, 50_000, 0, ATTACKER);
    const later = presentAll(nodes, 51_000, 0, ATTACKER);
    await simulation.run(52_000);
    expect([later, service.asked]).toEqual([[], 3]);
  });
});
