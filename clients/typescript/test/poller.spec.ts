import { randomUUID } from 'node:crypto';
import { toSettings } from '../src/options.js';
import type { ServiceAnswer, ServiceRequest } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';
import { Simulation } from './simulation.js';

const NODE_ID = '01985f4e-7c3a-7b52-9d1e-000000000b01';
const RENEWAL = { cursor: 'a', reset: false, lease_ms: 600, fresh_for_ms: 500, changes: [] };
const YES = { 'x-platform-remember': 'yes', 'x-platform-expires-in': '60', 'x-platform-fresh-for-ms': '500' };

describe('a poll', () => {
  const request = { headers: { 'x-api-key': `${NODE_ID}:key` } };
  let simulation: Simulation;
  /** How many uses each poll reported. */
  let reported: number[];
  let statusOfReports: number;
  let verifier: VerifierCore;

  beforeEach(async () => {
    simulation = new Simulation();
    reported = [];
    const send = ({ url, body = '' }: ServiceRequest): Promise<ServiceAnswer> => {
      if (!url.endsWith('/internal/changes')) {
        const household = { valid: true, node_id: NODE_ID, household_id: randomUUID() };
        return Promise.resolve({ status: 200, headers: YES, body: JSON.stringify(household) });
      }
      const { used = [] } = JSON.parse(body) as { used?: unknown[] };
      reported.push(used.length);
      const status = used.length > 0 ? statusOfReports : 200;
      return Promise.resolve({ status, headers: {}, body: status === 200 ? JSON.stringify(RENEWAL) : '{}' });
    };
    const own = { url: 'http://auth.test', appId: randomUUID(), appKey: 'pa_app_own', serviceName: 'recipes' };
    const settings = toSettings({ ...own, logger: { warn: () => undefined } });
    verifier = new VerifierCore(settings, simulation.createRuntime({ send, close: () => undefined }));
    await simulation.run(50);
    for (let i = 0; i < 2; i += 1) {
      const accepted = verifier.verifyNode(request);
      await simulation.run(simulation.nowMs + 1);
      await accepted;
    }
    reported = [];
  });

  afterEach(() => verifier.close());

  it('reports a use again when the service could not answer', async () => {
    statusOfReports = 503;
    await simulation.run(simulation.nowMs + 1_500);
    expect(reported.length).toBeGreaterThan(1);
    expect(reported.every((count) => count === 1)).toBe(true);
  });

  it('reports a use once when the service could not read the report, so that later polls are answered', async () => {
    statusOfReports = 400;
    await simulation.run(simulation.nowMs + 1_500);
    expect(reported.length).toBeGreaterThan(1);
    expect(reported).toEqual([1, ...reported.slice(1).map(() => 0)]);
  });
});
