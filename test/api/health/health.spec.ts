import { Client } from 'pg';
import { DataSource } from 'typeorm';
import type { Variables } from '../../../src/foundation/config/environment.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { IS_STANDBY } from '../../../src/foundation/database/connection-check.js';
import { Database } from '../../../src/foundation/database/database.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { expectVerdict } from '../../support/until-verdict.js';
import { useApp } from '../../support/use-app.js';
import { claimPort } from '../../../tools/claim-port.js';
import { Readiness } from '../../../src/api/health/health-probe.js';

describe('GET /health', () => {
  const app = useApp({ variables: UNLEASED });

  it('is 200 while the database answers, and open to everyone', async () => {
    const { body } = await app.get('/health').expect(200).expect('Cache-Control', 'no-store');
    expect(body).toMatchObject({ status: 'ok', details: { database: { status: 'up' }, service: { status: 'up' } } });
    await app.get('/health/live').expect(200, { status: 'ok' });
  });

  it('is 503 while the service drains and still answers requests', async () => {
    const replica = await app.startReplica();
    replica.nest.get(Readiness).drain();
    const { body } = await replica.get('/health').expect(503).expect('Cache-Control', 'no-store');
    expect(body).toMatchObject({ details: { service: { status: 'down' } } });
    await replica.get('/health/live').expect(200);
    expect((await replica.validateNode('a:b')).status).toBe(401);
  });

  it('is 200 and degraded while the logging service is down', async () => {
    const LOGGING_SERVICE_URL = `http://127.0.0.1:${await claimPort()}/logs`;
    const shipping = await app.startReplica({ variables: { LOGGING_SERVICE_URL, LOG_LEVEL: 'info' } });
    await shipping.get('/health/live').expect(200);
    await shipping.log.flush();
    const { body, text } = await shipping.get('/health').expect(200);
    expect(body).toMatchObject({ details: { database: { status: 'up' }, logging_service: { status: 'degraded' } } });
    expect(text).not.toContain(LOGGING_SERVICE_URL);
  });

  it('is 503 with Retry-After without the database, without driver details, while /health/live is 200', async () => {
    await app.database.drop();
    // The result of a check is kept for a moment.
    await eventually('it is unready', async () => (await app.get('/health')).status === 503);
    const answer = await app.get('/health').expect(503);
    expect(answer.headers['retry-after']).toBe(String(problems.unavailable.retryAfterSeconds));
    expect(answer.body).toMatchObject({ status: 'error', error: { database: { status: 'down' } } });
    const { hostname, port, pathname } = new URL(app.database.url);
    for (const told of [pathname.slice(1), `${hostname}:${port}`, 'does not exist', 'postgres', 'SELECT']) {
      expect(answer.text).not.toContain(told);
    }
    await app.get('/health/live').expect(200, { status: 'ok' });
  });
});

describe('the database check of GET /health', () => {
  const app = useApp({
    isBehindProxy: true,
    variables: { ...UNLEASED, DATABASE_POOL_SIZE: '2' },
    settings: { healthTimeoutMs: 5_000 },
  });

  const connections = async (application: string): Promise<number> => {
    const sql =
      'SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1';
    return (await app.database.query<{ n: number }>(sql, [application]))[0]!.n;
  };

  const flood = async (): Promise<number[]> => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => app.get('/health')));
    return [...new Set(answers.map(({ status }) => status))];
  };

  it('uses one dedicated connection for all requests', async () => {
    expect(await flood()).toEqual([200]);
    expect(await connections('platform-auth-health')).toBe(1);
  });

  it('succeeds while every connection of the pool is taken', async () => {
    const { nest } = app;
    const runners = [nest.get(DataSource).createQueryRunner(), nest.get(DataSource).createQueryRunner()];
    for (const runner of runners) await runner.connect();
    // A check that took one of them would wait for it, and answer 503.
    expect(await flood()).toEqual([200]);
    expect(nest.get(Database).pool).toMatchObject({ total: 2, idle: 0 });
    for (const runner of runners) await runner.release();
  });

  it('succeeds again after the database was down', async () => {
    await app.get('/health').expect(200);
    await app.proxy.close();
    await eventually('it is unready', async () => (await app.get('/health')).status === 503);
    await app.proxy.open();
    await eventually('it is ready', async () => (await app.get('/health')).status === 200);
    // PostgreSQL may take a moment to end the one that was cut.
    await eventually('one is left', async () => (await connections('platform-auth-health')) === 1);
  });

  // The last one, because nothing is answered any more.
  it('runs once for concurrent requests', async () => {
    await app.get('/health').expect(200);
    app.proxy.blackHole(true);
    const queries = jest.spyOn(Client.prototype, 'query');
    await eventually('a check finds nothing', async () => (await flood()).includes(503));
    const checks = queries.mock.calls.filter(([statement]) => statement === IS_STANDBY);
    queries.mockRestore();
    expect(checks).toHaveLength(1);
  });
});

describe('GET /health/ready', () => {
  const startCutOff = async (variables: Variables): Promise<TestApp> => {
    const app = await TestApp.start({
      isBehindProxy: true,
      variables,
      settings: { healthTimeoutMs: 1_000, databaseConnectTimeoutMs: 1_000, databaseStatementTimeoutMs: 1_000 },
    });
    await app.get('/health/ready').expect(200);
    const node = await app.node();
    await expectVerdict(200, () => app.validateNode(node.header));
    await app.proxy.close();
    await eventually('it is unready', async () => (await app.get('/health')).status === 503);
    return app;
  };

  it('is 200 while OUTAGE_GRACE_SECONDS keeps the cache usable without the database, and 503 while it drains', async () => {
    const app = await startCutOff({ OUTAGE_GRACE_SECONDS: '3600' });
    const { body } = await app.get('/health/ready').expect(200);
    expect(body).toMatchObject({ status: 'degraded', details: { database: { status: 'degraded' } } });
    app.nest.get(Readiness).drain();
    await app.get('/health/ready').expect(503);
    await app.stop();
  });

  it('is a 503 problem without the database and without a grace', async () => {
    const app = await startCutOff({});
    await eventually('the lease is over', async () => (await app.get('/health/ready')).status === 503);
    expectProblem(await app.get('/health/ready'), problems.unavailable);
    await app.stop();
  });
});
