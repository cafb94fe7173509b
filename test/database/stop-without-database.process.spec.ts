import { Client } from 'pg';
import { Caller } from '../support/caller.js';
import { eventually } from '../../tools/eventually.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { VARIABLES, withSettings } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

describe('a shutdown while the database', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let service: ServiceProcess;

  beforeAll(async () => {
    database = await createTestDatabase();
  });

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

  afterAll(async () => {
    await database.drop();
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
    const holder = new Client({ connectionString: database.url });
    await holder.connect();
    await holder.query('BEGIN; LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE');
    const caller = new Caller(service.url);
    const headers = { 'X-API-Key': '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f:key' };
    const answer = caller.call('/internal/validate-node', { headers });
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    await eventually('it waits', async () => (await database.query(waiting)).length > 0);
    expect(await service.stop()).toBe(0);
    expect(await answer).toBe(503);
    await holder.end();
    caller.hangUp();
  });
});
