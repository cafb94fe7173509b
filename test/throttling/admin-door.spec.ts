import { AuditJob } from '../../src/maintenance/maintenance.js';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { ADMIN_KEY } from '../support/settings.js';
import type { TestApp } from '../support/test-app.js';
import { countByStatus, expectThrottled } from '../support/throttled.js';
import { useAppPerTest } from '../support/use-app.js';

const LIMIT = 5;
const REFUSED = { event: 'admin.key.refused' };

describe('wrong admin keys', () => {
  const one = useAppPerTest({
    variables: { TRUST_PROXY: '1' },
    settings: { adminKeyLimitPerAddress: { points: LIMIT, seconds: 900 } },
  });
  const { clock } = one;
  let two: TestApp;

  beforeEach(async () => {
    two = await one.startReplica();
    clock.enterNextWindow();
  });

  const tryKey = (app: TestApp, address: string, key = `${ADMIN_KEY}x`) =>
    app.get('/api/v0/admin/users').set('X-Admin-Key', key).set('X-Forwarded-For', address);
  const tryKeys = (times: number, address: string) =>
    Promise.all(Array.from({ length: times }, (_, index) => tryKey(index % 2 ? one : two, address)));

  it('are 401 up to the limit of a network over all replicas, and then 429', async () => {
    const answers = await tryKeys(200, '192.0.2.1');
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 200 - LIMIT });
    for (const answer of answers) {
      if (answer.status === 401) expectProblem(answer, problems.invalidAdminKey);
      else expect(expectThrottled(answer)).toMatchObject({ policy: 'admin-key', points: LIMIT });
    }
    expectProblem(await tryKey(one, '192.0.2.2'), problems.invalidAdminKey);
  });

  it('do not lock out the right key, also at the same address', async () => {
    await tryKeys(2 * LIMIT, '192.0.2.1');
    await tryKey(one, '192.0.2.1', ADMIN_KEY).expect(200);
    await tryKey(two, '192.0.2.1', ADMIN_KEY).expect(200);
    expectThrottled(await tryKey(one, '192.0.2.1'));
  });

  it('write one audit row for each network and window, with their number', async () => {
    await tryKeys(50, '192.0.2.1');
    await tryKey(one, '2001:db8:0:7::1').expect(401);
    const open = await recorded(one, REFUSED);
    expect(open).toMatchObject([
      { subject: '2001:db8:0:7::/64', count: 1 },
      { subject: '192.0.2.1', address: '192.0.2.1', count: LIMIT, details: { reasons: { wrong_key: LIMIT } } },
    ]);
    clock.advance({ minutes: 17 });
    await Promise.all([one, two].map(({ nest }) => nest.get(AuditJob).maintainAuditLog()));
    expect(await recorded(two, REFUSED)).toEqual(open);
    expect(await one.database.query('SELECT 1 FROM refused_admin_keys')).toEqual([]);
  });

  it('write a bounded number of log lines, none with a key', async () => {
    await Promise.all(Array.from({ length: 1_000 }, () => tryKey(one, '192.0.2.1')));
    expect(one.log.events('admin.key.refused')).toHaveLength(LIMIT);
    const lines = [...one.log.events('admin.key.throttled'), ...one.log.lines.filter(({ status }) => status === 429)];
    expect(lines.length).toBeLessThan(2 * 120);
    expect(Math.max(...lines.map(({ count = 0 }) => count))).toBe(512);
    expect(JSON.stringify(one.log.lines)).not.toContain(`${ADMIN_KEY}x`);
  });
});
