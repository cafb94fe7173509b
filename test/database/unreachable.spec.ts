import { Database } from '../../src/database/database.js';
import { eventually } from '../../tools/eventually.js';
import { Callers, SHORT_WAITS } from '../support/outage.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

describe('an unreachable database', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let callers: Callers;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    callers = await Callers.of(await TestApp.start({ database: { ...database, url: proxy.url }, ...SHORT_WAITS }));
  });

  afterAll(async () => {
    await callers.app.stop();
    await proxy.close();
    await database.drop();
  });

  it('causes 503 on every route while it refuses connections, and the service recovers by itself', async () => {
    await proxy.close();
    await callers.expectNoVerdicts();
    await proxy.open();
    await callers.expectRecovered();
  });

  it('causes 503 on every route while packets are dropped, and the service recovers by itself', async () => {
    proxy.blackHole(true);
    await callers.expectNoVerdicts();
    // New connections are accepted, and get no response either.
    await callers.expectNoVerdicts();
    proxy.blackHole(false);
    await callers.expectRecovered();
  });

  it('leaks no pool connection when a firewall drops established connections', async () => {
    const { app } = callers;
    const database = app.nest.get(Database);
    const readAtOnce = () => Promise.all(Array.from({ length: 20 }, () => app.admin.get('/nodes')));
    await readAtOnce();
    proxy.forgetConnections();
    expect((await readAtOnce()).map(({ status }) => status)).toContain(503);
    await eventually('none is waited for', () => database.pool.stalled === 0);
    expect(database.pool.limit).toBe(10);
    await callers.expectRecovered();
  });

  it('causes 503 for requests that were waiting when the connection was cut', async () => {
    proxy.blackHole(true);
    const asked = callers.askEverything();
    await proxy.close();
    expect(new Set((await asked).map(({ status }) => status))).toEqual(new Set([503]));
    proxy.blackHole(false);
    await proxy.open();
    await callers.expectRecovered();
  });
});
