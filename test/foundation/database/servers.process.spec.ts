import { eventually } from '../../../tools/eventually.js';
import { Callers, SHORT_WAITS } from '../../support/outage.js';
import { holdTable } from '../../support/row-lock.js';
import { OwnPostgres } from '../../support/own-postgres.js';
import { endAll, ServiceProcess } from '../../support/service-process.js';
import { TcpProxy } from '../../../tools/tcp-proxy.js';
import { PASSWORD, VARIABLES, withSettings } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { Caller } from '../../support/caller.js';
import { useTestDatabase } from '../../support/test-database.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';

describe('a streaming standby', () => {
  let primary: OwnPostgres;
  let standby: OwnPostgres;
  let proxy: TcpProxy;
  let callers: Callers;

  beforeAll(async () => {
    primary = await OwnPostgres.start();
    standby = await primary.withStandby();
    proxy = await TcpProxy.before(primary.database.url);
    const database = { ...primary.database, url: proxy.url };
    callers = await Callers.of(await TestApp.start({ database, ...SHORT_WAITS }));
  }, 240_000);

  afterAll(async () => {
    await callers.app.stop();
    await proxy.close();
    await standby.remove();
    await primary.remove();
  });

  const isInRecovery = async (): Promise<boolean> => {
    const [row] = await standby.database.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is');
    return row!.is;
  };

  it('is refused at the start, with exit code 1 and the reason', async () => {
    expect(await isInRecovery()).toBe(true);
    const variables = { ...VARIABLES, LOG_LEVEL: 'warn', DATABASE_URL: standby.database.url };
    const service = await ServiceProcess.spawn({ ...variables, ...withSettings({ startTimeoutSeconds: 2 }) });
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('start_waits');
    expect(service.output).toMatch(/The service could not start: .*the database is a standby/);
    expect(service.output).not.toContain('of-a-test');
  });

  it('causes 503 on every route and in /health when a running service is connected to it', async () => {
    await primary.stop('fast');
    proxy.redirectTo(standby.database.url);
    await callers.expectNoVerdicts();
    await callers.expectNoVerdicts();
    expect(await isInRecovery()).toBe(true);
  });

  it('is used when it is promoted, by the running service and by a start that waited for it', async () => {
    const variables = { ...VARIABLES, LOG_LEVEL: 'warn', DATABASE_URL: standby.database.url };
    const service = await ServiceProcess.spawn(variables);
    await eventually('the start waits', () => service.output.includes('the database is a standby'));
    expect(await service.status('/health/live')).toBeUndefined();
    await standby.promote();
    await callers.expectRecovered();
    await service.ready();
    expect(await service.stop()).toBe(0);
  }, 240_000);

  it('is refused also when the primary comes back as a standby', async () => {
    await standby.stop('fast');
    await standby.startAsStandbyOf(primary);
    await callers.expectNoVerdicts();
    await standby.promote();
    await callers.expectRecovered();
    await primary.startAgain();
  });
});

describe('a shutdown while the database', () => {
  const database = useTestDatabase();
  let proxy: TcpProxy;
  let service: ServiceProcess;

  beforeEach(async () => {
    proxy = await TcpProxy.before(database.url);
    service = await ServiceProcess.start({
      ...VARIABLES,
      DATABASE_URL: proxy.url,
      // Long enough for a test to observe the waiting statement.
      ...withSettings({
        databaseConnectTimeoutMs: 3_000,
        databaseStatementTimeoutMs: 3_000,
        shutdownDeadlineMs: 30_000,
      }),
      // Without a change feed, the first bytes to the database are those of the request.
      REVOCATION_LEASE_MS: '0',
    });
  });

  afterEach(async () => {
    await endAll();
    await proxy.close();
  });

  it('refuses connections exits with 0', async () => {
    await proxy.close();
    await eventually('it is unready', async () => (await service.status('/health')) === 503);
    expect(await service.stop()).toBe(0);
  });

  it('does not respond answers 503 to open requests and exits with 0', async () => {
    const caller = new Caller(service.url);
    proxy.blackHole(true);
    const headers = { 'X-API-Key': '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f:key' };
    const answer = caller.call('/internal/validate-node', { headers });
    await eventually('the query is swallowed', () => proxy.swallowedBytes > 0);
    expect(await service.stop()).toBe(0);
    expect(await answer).toBe(503);
    caller.hangUp();
  });

  it('holds a lock answers 503 to open requests and exits with 0', async () => {
    const table = await holdTable(database, 'nodes');
    const caller = new Caller(service.url);
    const headers = { 'X-API-Key': '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f:key' };
    const answer = caller.call('/internal/validate-node', { headers });
    await table.waiting(1);
    expect(await service.stop()).toBe(0);
    expect(await answer).toBe(503);
    await table.release();
    caller.hangUp();
  });
});

describe('a PostgreSQL that is stopped while the service runs', () => {
  let postgres: OwnPostgres;
  let callers: Callers;

  beforeAll(async () => {
    postgres = await OwnPostgres.start();
    callers = await Callers.of(await TestApp.start({ database: postgres.database, ...SHORT_WAITS }));
  }, 240_000);

  afterAll(async () => {
    await callers.app.stop();
    await postgres.remove();
  });

  it.each(['fast', 'immediate'] as const)(
    '(%s) causes 503 on every route, and the service recovers by itself',
    async (mode) => {
      await postgres.stop(mode);
      await callers.expectNoVerdicts();
      await callers.expectNoVerdicts();
      await postgres.startAgain();
      await callers.expectRecovered();
    },
    240_000,
  );

  it('by a crash under load causes no wrong verdict, and no acknowledged write is lost', async () => {
    const { app, node } = callers;
    const acknowledged: string[] = [];
    let validated = 0;
    let unavailable = 0;
    let isOver = false;
    const validating = async (): Promise<void> => {
      while (!isOver) {
        const answer = await app.validateNode(node.header);
        if (answer.status === 200) validated += 1;
        else expectProblem(answer, problems.unavailable);
      }
    };
    const registering = async (_: unknown, writer: number): Promise<void> => {
      for (let i = 0; !isOver; i += 1) {
        const email = `writer-${writer}-${i}@example.org`;
        const answer = await app.post('/api/v0/auth/register', { email, password: PASSWORD });
        if (answer.status === 201) acknowledged.push(email);
        else expectProblem(answer, problems.unavailable);
        unavailable += answer.status === 503 ? 1 : 0;
      }
    };
    const load = Promise.all([
      ...Array.from({ length: 8 }, validating),
      ...Array.from({ length: 4 }, (_, writer) => registering(_, writer)),
    ]);
    try {
      await eventually('both are under way', () => validated > 50 && acknowledged.length > 20);
      await postgres.stop('immediate');
      await eventually('requests fail', () => unavailable > 5);
      await postgres.startAgain();
      const before = acknowledged.length;
      await eventually('it is over', () => acknowledged.length > before + 20);
    } finally {
      isOver = true;
      await load;
    }
    const rows = await postgres.database.query<{ email: string }>('SELECT email FROM users');
    const kept = new Set(rows.map(({ email }) => email));
    expect(acknowledged.filter((email) => !kept.has(email))).toEqual([]);
    await callers.expectRecovered();
  }, 240_000);
});
