import { Client, DatabaseError } from 'pg';
import { refuseUnusable } from '../../src/database/connection-check.js';
import { isDatabaseFailure } from '../../src/database/database-failure.js';
import { eventually } from '../../tools/eventually.js';
import { Callers } from '../support/outage.js';
import { ServiceProcess } from '../support/service-process.js';
import { VARIABLES } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { TransactionPooler } from '../support/transaction-pooler.js';

describe('a pooler between the service and PostgreSQL', () => {
  let database: TestDatabase;
  let pooler: TransactionPooler;

  beforeEach(async () => {
    database = await createTestDatabase({ isEmpty: true });
  });

  afterEach(async () => {
    await pooler.close();
    await database.drop();
  });

  it('in transaction mode is refused at the start, with the mode to use instead', async () => {
    pooler = await TransactionPooler.before(database.url, 'transaction');
    const service = await ServiceProcess.spawn({ ...VARIABLES, DATABASE_URL: pooler.url });
    expect(await service.exited()).toBe(1);
    expect(service.output).toMatch(/could not start: .*PgBouncer.*transaction.*pool_mode = session/);
    expect(await database.query(`SELECT to_regclass('migrations') AS found`)).toEqual([{ found: null }]);
  });

  it('in transaction mode is recognised also while other clients use it', async () => {
    pooler = await TransactionPooler.before(database.url, 'transaction');
    let isOver = false;
    const others = Array.from({ length: 4 }, async () => {
      const client = new Client({ connectionString: pooler.url });
      await client.connect();
      while (!isOver) await client.query('SELECT 1');
      await client.end();
    });
    const attempts = Array.from({ length: 20 }, () =>
      refuseUnusable(pooler.url).catch((error: unknown) => (error as Error).name),
    );
    const outcomes = await Promise.all(attempts);
    isOver = true;
    await Promise.all(others);
    expect(new Set(outcomes)).toEqual(new Set(['SharedSessionsError']));
  });

  it('that changes to transaction mode under a running service causes 503, never 500 or a wrong verdict', async () => {
    pooler = await TransactionPooler.before(database.url, 'session');
    const variables = { REVOCATION_LEASE_MS: '0', DATABASE_POOL_SIZE: '4' };
    const callers = await Callers.of(await TestApp.start({ database: { ...database, url: pooler.url }, variables }));
    const { app, node, service } = callers;
    await callers.expectRecovered();
    const other = new Client({ connectionString: pooler.url });
    await other.connect();
    pooler.mode = 'transaction';
    // From here the pooler may assign this session, which has no prepared statement, to the service.
    await other.query('SELECT 1');
    const statuses = new Set<number>();
    await eventually('a call has failed', async () => {
      for (const call of [() => app.validateNode(node.header), () => app.validateApp(service.headers)])
        statuses.add((await call()).status);
      return statuses.has(503);
    });
    await other.end();
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    await app.stop();
  });

  it('in session mode is accepted', async () => {
    pooler = await TransactionPooler.before(database.url, 'session');
    await refuseUnusable(pooler.url);
    const service = await ServiceProcess.start({ ...VARIABLES, DATABASE_URL: pooler.url });
    expect(await service.stop()).toBe(0);
  });
});

describe('a lost database session', () => {
  it.each(['42P05', '26000', '08P01'])('(SQLSTATE %s) counts as a database outage', (code) => {
    expect(isDatabaseFailure(Object.assign(new DatabaseError('', 0, 'error'), { code }))).toBe(true);
  });

  it.each(['42601', '42P01', '23505', '22P02'])(
    'is not reported by SQLSTATE %s, which is a bug of the service',
    (code) => {
      expect(isDatabaseFailure(Object.assign(new DatabaseError('', 0, 'error'), { code }))).toBe(false);
    },
  );
});
