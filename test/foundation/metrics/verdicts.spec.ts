import { randomUUID } from 'node:crypto';
import { DOORS } from '../../../src/foundation/access/principals.js';
import { REFUSAL_REASONS } from '../../../src/foundation/common/security-events.js';
import { eventually } from '../../../tools/eventually.js';
import { scrape } from '../../support/scrape.js';
import { ADMIN_KEY } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

describe('the counter of verdicts', () => {
  const app = useApp({ variables: { METRICS_PORT: '0' } });

  let born: string[];
  let before: Record<string, number>;

  const series = async (): Promise<string[]> =>
    (await scrape(app)).text.match(/^platform_auth_(verdicts|flow_refusals)_total\{[^}]*\}/gm) ?? [];

  beforeAll(async () => {
    born = await series();
  });

  beforeEach(async () => {
    before = await counts();
  });

  const counts = async (): Promise<Record<string, number>> => {
    const { text } = await scrape(app);
    const samples = text.matchAll(/^platform_auth_verdicts_total\{door="(\w+)",reason="(\w+)"\} (\d+)/gm);
    return Object.fromEntries([...samples].map(([, door, reason, count]) => [`${door} ${reason}`, Number(count)]));
  };

  /** What the test has added. */
  const verdicts = async (): Promise<Record<string, number>> => {
    const added = Object.entries(await counts()).map(([name, count]) => [name, count - (before[name] ?? 0)] as const);
    return Object.fromEntries(added.filter(([, count]) => count > 0));
  };

  const become = async (expected: Record<string, number>): Promise<void> => {
    let seen = {};
    await eventually('all is counted', async () => {
      seen = await verdicts();
      return sum(seen) >= sum(expected);
    });
    expect(seen).toEqual(expected);
    // An alert does not see a counter that is born as 1.
    expect(await series()).toEqual(born);
  };
  const sum = (of: Record<string, number>): number => Object.values(of).reduce((a, b) => a + b, 0);

  it('starts at zero for every verdict and every refusal', async () => {
    const { text } = await scrape(app);
    for (const [event, reasons] of Object.entries(REFUSAL_REASONS)) {
      const door = Object.entries(DOORS).find(([, { refusalEvent }]) => refusalEvent === event)?.[0];
      const owner = door === undefined ? `flow_refusals_total{event="${event}"` : `verdicts_total{door="${door}"`;
      for (const reason of reasons) expect(text).toContain(`platform_auth_${owner},reason="${reason}"} 0\n`);
    }
    for (const door of Object.keys(DOORS))
      expect(text).toContain(`platform_auth_verdicts_total{door="${door}",reason="valid"} 0\n`);
    expect(born).toHaveLength(Object.values(REFUSAL_REASONS).flat().length + Object.keys(DOORS).length);
  });

  it('counts throttled calls in series that were there before', async () => {
    const replica = await app.startReplica({
      variables: { METRICS_PORT: '0' },
      settings: { adminKeyLimitPerAddress: { points: 1, seconds: 60 } },
    });
    for (const status of [401, 429])
      await replica.get('/api/v0/admin/users').set('X-Admin-Key', `${ADMIN_KEY}x`).expect(status);
    const labels = { event: 'admin.key.throttled', reason: 'admin-key' };
    await eventually('it is counted', async () => (await scrape(replica)).value('flow_refusals_total', labels) === 1);
  });

  it('counts what gateways ask for', async () => {
    const [service, node] = [await app.service(), await app.node()];
    const { access_token } = await (await app.user()).logsIn();
    const authorize = (door: string, headers: Record<string, string>) =>
      app.get(`/internal/authorize/${door}`).set(headers);
    await authorize('app', { ...service.headers, 'X-Platform-Target': service.target }).expect(200);
    await authorize('node', { 'X-API-Key': node.header }).expect(200);
    await authorize('user', { Authorization: `Bearer ${access_token}` }).expect(200);
    await authorize('node', { 'X-API-Key': `${node.nodeId}:wrong` }).expect(401);
    await become({ 'admin valid': 2, 'app valid': 1, 'node valid': 1, 'user valid': 1, 'node wrong_key': 1 });
  });

  it('has the reason, which responses do not contain', async () => {
    const service = await app.service();
    const { appId } = service;
    await app.validateApp(service.headers).expect(200);
    await app.validateApp({ 'X-Platform-App-Id': appId, 'X-Platform-App-Key': 'wrong' }).expect(401);
    await app.validateApp({ 'X-Platform-App-Id': randomUUID(), 'X-Platform-App-Key': 'wrong' }).expect(401);
    await app.admin.delete(`/app-credentials/${appId}`).expect(204);
    await app.validateApp(service.headers).expect(401);
    await become({ 'app valid': 1, 'app wrong_key': 1, 'app unknown': 1, 'app revoked': 1, 'admin valid': 2 });
  });

  it('counts a key for another target once, as refused', async () => {
    const service = await app.service('ocr', 'recipes');
    await app.validateApp(service.headers, { target: 'speech' }).expect(401);
    await become({ 'app other_target': 1, 'admin valid': 1 });
  });

  it('counts two verdicts for two credentials', async () => {
    const [service, node] = [await app.service(undefined, 'auth'), await app.node()];
    await app.validateNode(node.header).set(service.headers).expect(200);
    await app.validateNode(`${node.nodeId}:wrong`).set(service.headers).expect(401);
    await app.validateNode(node.header).set({ ...service.headers, 'X-Platform-App-Key': 'wrong' });
    await become({ 'node valid': 1, 'node wrong_key': 1, 'app valid': 2, 'app wrong_key': 1, 'admin valid': 2 });
  });

  it('counts no verdict when the database is unavailable', async () => {
    const node = await app.node();
    await app.database.query('ALTER TABLE nodes RENAME TO gone');
    expect((await app.validateNode(node.header)).status).toBeGreaterThanOrEqual(500);
    await app.database.query('ALTER TABLE gone RENAME TO nodes');
    await app.validateNode(node.header).expect(200);
    await become({ 'node valid': 1, 'admin valid': 1 });
  });

  it('covers users and operators', async () => {
    const { access_token } = await (await app.user()).logsIn();
    await app.me(access_token).expect(200);
    await app.me('no token').expect(401);
    await app.get('/api/v0/users/me').expect(401);
    await app.get('/api/v0/admin/users').set('X-Admin-Key', `${ADMIN_KEY}x`).expect(401);
    await become({ 'user valid': 1, 'user not_accepted': 1, 'user no_credential': 1, 'admin wrong_key': 1 });
  });

  it('counts logins and refreshes by event', async () => {
    const of = {
      wrong_password: 'user.login.failed',
      unknown: 'user.login.failed',
      malformed: 'session.refresh.refused',
    };
    const count = async (): Promise<(number | undefined)[]> => {
      const seen = await scrape(app);
      return Object.entries(of).map(([reason, event]) => seen.value('flow_refusals_total', { event, reason }));
    };
    const first = await count();
    const user = await app.user();
    await app.login(user.email, 'not the password').expect(401);
    await app.login('unknown@example.org').expect(401);
    await app.refresh('no token').expect(401);
    await eventually('all is counted', async () => (await count())[2] === first[2]! + 1);
    expect(await count()).toEqual(first.map((counted) => counted! + 1));
    expect(await series()).toEqual(born);
  });
});

describe('the log shipper', () => {
  it('exports its state, the waiting lines and the undelivered lines', async () => {
    const shipping = { LOG_LEVEL: 'info', LOGGING_SERVICE_URL: 'http://127.0.0.1:9/logs' };
    // On a machine that stalls, the change feed would log lines of its own.
    const app = await TestApp.start({ variables: { METRICS_PORT: '0', REVOCATION_LEASE_MS: '0', ...shipping } });
    expect((await scrape(app)).value('log_delivering')).toBe(1);
    await app.get('/health/live');
    await eventually('it breaks', async () => (await scrape(app)).value('log_delivering') === 0);
    expect((await scrape(app)).value('log_lines_undelivered_total')).toBeGreaterThan(0);
    await app.stop();
  });

  it('has the validations of its deliveries counted', async () => {
    const first = await TestApp.start();
    const service = await first.service('auth', 'logging');
    const own = { LOGGING_SERVICE_URL: 'http://127.0.0.1:9/logs', LOGGING_APP_ID: service.appId };
    const app = await first.startReplica({ variables: { METRICS_PORT: '0', ...own } });
    await app.validateApp(service.headers).expect(200);
    await app.validateApp({ ...service.headers, 'X-Platform-App-Key': 'wrong' }).expect(401);
    await app.validateApp((await app.service()).headers).expect(200);
    const valid = { door: 'app', reason: 'valid' };
    await eventually('they are counted', async () => (await scrape(app)).value('verdicts_total', valid) === 2);
    expect((await scrape(app)).value('log_delivery_validations_total')).toBe(2);
    await first.stop();
  });
});
