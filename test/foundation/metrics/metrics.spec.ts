import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { eventually } from '../../../tools/eventually.js';
import { fromRoot } from '../../support/from-root.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { metricsUrl, scrape, type Scrape } from '../../support/scrape.js';
import { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';
import { TestClock } from '../../support/test-clock.js';
import type { BackgroundWorkResponse } from '../../../src/api/admin/background-work.admin.controller.js';
import { AuditJob, KeyMaterialJob, PurgeJob, SealJob } from '../../../src/domain/maintenance/jobs.js';
import { MetricsServer } from '../../../src/foundation/metrics/metrics-server.js';
import { ES256 } from '../../domain/signing-keys/support.js';
import { insertion } from '../../domain/audit/auditor.js';
import { tell } from '../../domain/events/subscriber.js';
import { Readiness } from '../../../src/api/health/health-probe.js';

const ON = { METRICS_PORT: '0' };

/** A request is counted just after its response is sent. */
async function once(app: TestApp, isSo: (seen: Scrape) => boolean): Promise<Scrape> {
  let seen = await scrape(app);
  await eventually('it is counted', async () => isSo((seen = await scrape(app))));
  return seen;
}

/** Lets `web` act for users at `ocr`. */
async function allowExchange(app: TestApp) {
  const web = await app.service('web', 'auth');
  const pair = { caller: 'web', target: 'ocr', scopes: ['pages:read'], for_users: true };
  await app.admin.post('/app-credentials', pair).expect(201);
  const { access_token: subject_token } = await (await app.user()).logsIn();
  return (audience: string) =>
    app
      .post('/internal/token')
      .set(web.headers)
      .type('form')
      .send({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token,
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        audience,
      });
}

describe('/metrics', () => {
  const app = useApp({ variables: { ...ON, ...ES256 } });

  it('is served in the Prometheus format, on the only route of its port', async () => {
    const answer = await fetch(metricsUrl(app));
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await answer.text()).toContain('# TYPE platform_auth_http_requests_total counter');
    for (const path of ['', 'x', 'health']) {
      expect((await fetch(new URL(`/${path}`, metricsUrl(app)))).status).toBe(404);
    }
    expect((await fetch(metricsUrl(app), { method: 'POST', body: '{}' })).status).toBe(404);
  });

  it('is not served on the port of the service', async () => {
    await app.get('/metrics').expect(404);
  });

  it('prefixes every name with platform_auth_', async () => {
    const { names } = await scrape(app);
    expect(names.length).toBeGreaterThan(30);
    expect(names.filter((name) => !name.startsWith('platform_auth_'))).toEqual([]);
  });

  it('counts requests by the pattern of their route, never by their path', async () => {
    const user = await app.user();
    const { access_token } = await user.logsIn();
    await app.get(`/api/v0/users/${user.id}`).set('Authorization', `Bearer ${access_token}`).expect(200);
    await app.get('/canary-path?canary=1').expect(404);
    const labels = { route: '/api/v0/users/:id', method: 'GET', status: '200', door: 'user' };
    const unknown = { route: 'none', method: 'GET', status: '404', door: 'none' };
    const seen = await once(app, (now) => now.value('http_requests_total', unknown) === 2);
    expect(seen.value('http_requests_total', labels)).toBe(1);
    expect(seen.text).not.toMatch(new RegExp(`canary|${user.id}|${user.email}`));
  });

  it('counts each act by its audit event, and no act that was refused', async () => {
    const count = async (event: string) => (await scrape(app)).value('actions_total', { event });
    expect(await count('admin.operator.issued')).toBe(0);
    await app.operator();
    expect(await count('admin.operator.issued')).toBe(1);
    const before = await count('user.registered');
    const body = { email: `${randomUUID()}@example.org`, password: PASSWORD };
    await app.post('/api/v0/auth/register', body).expect(201);
    await app.post('/api/v0/auth/register', body).expect(409);
    expect(await count('user.registered')).toBe(before! + 1);
    expect(await count('user.login.failed')).toBeUndefined();
  });

  it('counts tokens for users by the pair of the map, and a refused exchange by its reason only', async () => {
    const exchange = await allowExchange(app);
    await exchange('ocr').expect(200);
    await exchange('ocr').expect(200);
    await exchange('canary').expect(400);
    const refusal = { event: 'token.exchange.refused', reason: 'target' };
    const seen = await once(app, (now) => now.value('flow_refusals_total', refusal) === 1);
    expect(seen.value('token_exchanges_total', { caller: 'web', target: 'ocr' })).toBe(2);
    expect(seen.text).not.toContain('canary');
  });

  it('counts the paths without /api/v0 with the listed ones', async () => {
    await app.post('/auth/refresh', { refresh_token: 'no token' }).expect(401);
    const labels = { route: '/api/v0/auth/refresh', method: 'POST', status: '401', door: 'none' };
    await once(app, (now) => now.value('http_requests_total', labels) === 1);
  });

  it('counts durations in cumulative buckets', async () => {
    const labels = { route: '/health/live', method: 'GET' };
    for (let i = 0; i < 3; i += 1) await app.get('/health/live').expect(200);
    const seen = await once(app, (now) => now.value('http_request_duration_seconds_count', labels) === 3);
    const buckets = [
      ...seen.text.matchAll(/seconds_bucket\{le="([^"]+)",route="\/health\/live",method="GET"\} (\d+)/g),
    ];
    const counts = buckets.map((match) => Number(match[2]));
    expect(buckets.at(-1)?.[1]).toBe('+Inf');
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    expect(counts.at(-1)).toBe(3);
    expect(seen.value('http_request_duration_seconds_sum', labels)).toBeGreaterThan(0);
  });

  it('counts unusual methods under one label', async () => {
    await fetch(metricsUrl(app).replace(/\d+\/metrics/, `${portOf(app)}/health`), { method: 'PROPFIND' });
    const labels = { route: 'none', method: 'other', status: '405', door: 'none' };
    await once(app, (now) => now.value('http_requests_total', labels) === 1);
  });

  it('exports the hashing queue, the pool and the event loop', async () => {
    const seen = await scrape(app);
    expect(seen.value('hashing_queue_limit')).toBe(100);
    expect(seen.value('hashing_threads_limit')).toBe(1);
    expect(seen.value('hashing_queued')).toBe(0);
    expect(seen.value('database_connections')).toBeGreaterThan(0);
    expect(seen.value('database_connections_limit')).toBe(10);
    expect(seen.value('database_requests_waiting')).toBe(0);
    expect(seen.value('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
  });

  it('counts 503 among the failures, which start at zero', async () => {
    const replica = await app.startReplica({ variables: ON });
    const before = await scrape(replica);
    expect(before.value('http_failures_total', { status: '500' })).toBe(0);
    expect(before.value('http_failures_total', { status: '503' })).toBe(0);
    replica.nest.get(Readiness).drain();
    await replica.get('/health').expect(503);
    await replica.get('/health/live').expect(200);
    const seen = await once(replica, (now) => now.value('http_failures_total', { status: '503' }) === 1);
    expect(seen.value('http_failures_total', { status: '500' })).toBe(0);
    await replica.stop();
  });

  it('exports the number of running and waiting hashes', async () => {
    const slow = await TestApp.start({
      variables: { ...UNLEASED, ...ON, BCRYPT_COST: '12' },
      settings: { hashThreads: 1 },
    });
    let open = 0;
    // Called again when the previous ones ended before a scrape saw them.
    const logIn = (): void => {
      for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
        open += 1;
        void slow.login(`unknown-${name}@example.org`).then(() => (open -= 1));
      }
    };
    await once(slow, (now) => {
      if (open === 0) logIn();
      return now.value('hashing_running') === 1 && (now.value('hashing_queued') ?? 0) > 0;
    });
    await eventually('all are answered', () => open === 0);
    await once(slow, (now) => now.value('hashing_running') === 0 && now.value('hashing_queued') === 0);
    await slow.stop();
  });

  it('is off when METRICS_PORT is unset', async () => {
    const silent = await TestApp.start({ variables: UNLEASED });
    expect(silent.nest.get(MetricsServer).port).toBeUndefined();
    await silent.stop();
  });

  it('keeps the counts of each application apart, and stops with it', async () => {
    const other = await TestApp.start({ variables: { ...UNLEASED, ...ON } });
    const url = metricsUrl(other);
    await other.get('/health/live');
    const labels = { route: '/health/live', method: 'GET', status: '200', door: 'none' };
    await once(other, (now) => now.value('http_requests_total', labels) === 1);
    await other.stop();
    await expect(fetch(url)).rejects.toThrow();
  });
});

describe('database_up', () => {
  it('follows the database without a request to /health', async () => {
    const app = await TestApp.start({ variables: { ...UNLEASED, ...ON }, isBehindProxy: true });
    const { proxy } = app;
    expect((await scrape(app)).value('database_up')).toBe(1);
    await proxy.close();
    await once(app, (now) => now.value('database_up') === 0);
    await proxy.open();
    await once(app, (now) => now.value('database_up') === 1);
    await app.stop();
  });
});

describe('what is read from the database', () => {
  let skippedMs = 0;
  const skip = (seconds: number): void => void (skippedMs += seconds * 1_000);

  beforeAll(() => {
    const now = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs);
  });
  afterAll(() => void jest.restoreAllMocks());

  it('counts live keys of every kind that expire within 14 days', async () => {
    const app = await TestApp.start({ variables: { ...UNLEASED, ...ON } });
    const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();
    expect((await scrape(app)).value('keys_expiring')).toBe(0);
    await app.operator(['read'], 'soon', inDays(13));
    await app.operator(['read'], 'late', inDays(15));
    const node = { household_id: crypto.randomUUID(), room: 'hall', name: 'lamp', expires_at: inDays(1) };
    await app.admin.post('/nodes', node).expect(201);
    const pair = { caller: 'ui', target: 'ocr', expires_at: inDays(2) };
    const { body } = await app.admin.post('/app-credentials', pair).expect(201);
    await app.admin.post('/app-credentials', { ...pair, caller: 'recipes' }).expect(201);
    await app.admin.delete(`/app-credentials/${body.app_id}`).expect(204);
    skip(30);
    expect((await scrape(app)).value('keys_expiring')).toBe(3);
    await app.stop();
  });

  it('counts live sessions at most twice a minute, by a monotonic clock', async () => {
    const clock = new TestClock();
    const app = await TestApp.start({ variables: { ...UNLEASED, ...ON }, clock });
    expect((await scrape(app)).value('live_sessions')).toBe(0);
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    await user.logsIn();
    expect((await scrape(app)).value('live_sessions')).toBe(0);
    clock.advance({ seconds: 60 });
    expect((await scrape(app)).value('live_sessions')).toBe(0);
    skip(30);
    expect((await scrape(app)).value('live_sessions')).toBe(2);
    await app.logout(refresh_token).expect(204);
    clock.advance({ minutes: -5 });
    skip(30);
    expect((await scrape(app)).value('live_sessions')).toBe(1);
    clock.advance({ days: 15 });
    skip(30);
    expect((await scrape(app)).value('live_sessions')).toBe(0);
    await app.stop();
  });

  it('tells how far the background work is behind, as the route of the operators does', async () => {
    const app = await TestApp.start({ variables: { ...UNLEASED, ...ON } });
    const read = async () => {
      const { items } = (await app.admin.get('/background-work').expect(200)).body as BackgroundWorkResponse;
      const overdue = items.filter(({ is_overdue }) => is_overdue).map(({ name }) => name);
      return { overdue, seconds: Object.fromEntries(items.map(({ name, seconds }) => [name, seconds])) };
    };
    expect(await read()).toMatchObject({
      seconds: { audit_unsealed_seconds: 0, mail_waiting_seconds: 0 },
      overdue: [],
    });
    await app.database.query(`UPDATE job_runs SET succeeded_at = now() - interval '3 hours'`);
    await app.database.query(insertion(randomUUID(), 'now()', { recorded_at: `now() - interval '20 minutes'` }));
    await app.database.query(
      `INSERT INTO mail_requests (id, kind, recipient, networks, created_at, next_attempt_at)
       VALUES (gen_random_uuid(), 'password_reset', 'bob@example.org', '{}', now() - interval '1 hour', now() + interval '1 day')`,
    );
    const names = ['purge', 'audit_maintenance', 'key_maintenance'].map((name) => `${name}_age_seconds`);
    const behind = await read();
    expect(behind.overdue).toEqual(['audit_unsealed_seconds', ...names]);
    expect(behind.seconds.mail_waiting_seconds).toBeGreaterThanOrEqual(3_600);
    skip(30);
    const seen = await scrape(app);
    expect(seen.value('audit_unsealed_seconds')).toBeGreaterThanOrEqual(1_200);
    expect(seen.value('purge_age_seconds')).toBeGreaterThanOrEqual(10_800);
    await app.nest.get(SealJob).sealNewRows();
    await app.nest.get(PurgeJob).purgeExpired();
    await app.nest.get(AuditJob).maintainAuditLog();
    await app.nest.get(KeyMaterialJob).renewKeyMaterial();
    expect(await read()).toMatchObject({ seconds: { audit_unsealed_seconds: 0 }, overdue: [] });
    await app.stop();
  });

  it.each(['cut off', 'silent'])('is missing, alone, while the database is %s', async (outage) => {
    const app = await TestApp.start({ variables: { ...UNLEASED, ...ON }, isBehindProxy: true });
    const { proxy } = app;
    const isCounted = async (): Promise<boolean> => {
      skip(60);
      return (await scrape(app)).value('live_sessions') === 0;
    };
    await eventually('it is counted', isCounted);
    if (outage === 'silent') proxy.blackHole(true);
    else await proxy.close();
    skip(60);
    const seen = await scrape(app);
    expect(seen.value('live_sessions')).toBeUndefined();
    expect(seen.value('hashing_queue_limit')).toBe(100);
    if (outage === 'silent') proxy.blackHole(false);
    else await proxy.open();
    await eventually('it is counted again', isCounted);
    await app.stop();
  });
});

function portOf(app: TestApp): number {
  return (app.server.address() as { port: number }).port;
}

describe('docs/observability.md', () => {
  const app = useApp({ variables: { ...ON, ...ES256, LOGGING_SERVICE_URL: 'http://127.0.0.1:9/logs' } });

  it('lists every metric with its labels, and no other', async () => {
    await app.validateNode('no:node').expect(401);
    await app.service('recipes', 'auth');
    await app.admin.put('/event-subscriptions/recipes', { types: ['user.deleted'] }).expect(200);
    await tell(app);
    await (await allowExchange(app))('ocr').expect(200);
    await app.refresh('no token').expect(401);
    const refusal = { event: 'session.refresh.refused', reason: 'malformed' };
    const seen = await once(app, (now) => now.value('flow_refusals_total', refusal) === 1);
    const page = readFileSync(fromRoot('docs/observability.md'), 'utf8');
    const rows = [...page.matchAll(/^- `(platform_auth_\w+)`(?: \(([^)]*)\))?:/gm)];
    const listed = new Map(rows.map(([, name, labels = '']) => [name!, (labels.match(/\w+/g) ?? []).sort()]));
    // Those of Node.js differ with the operating system.
    const ofNode = /^platform_auth_(nodejs|process)_/;
    expect(seen.names.filter((name) => !listed.has(name))).toEqual([]);
    const exported = seen.names.filter((name) => !ofNode.test(name));
    const labelsOf = (name: string): string[] =>
      [...(seen.labels.get(name) ?? []), ...(seen.labels.get(`${name}_bucket`) ?? [])].filter(
        (label) => label !== 'le',
      );
    expect([...listed].filter(([name]) => !ofNode.test(name)).sort()).toEqual(
      exported.map((name) => [name, [...new Set(labelsOf(name))].sort()]).sort(),
    );
  });
});
