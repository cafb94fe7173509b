import { Database } from '../../src/database/database.js';
import { eventually } from '../support/eventually.js';
import { Callers, SHORT_WAITS } from '../support/outage.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

describe('a database that cannot be reached', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let callers: Callers;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    callers = await Callers.of(
      await TestApp.start({ database: { ...database, url: proxy.url }, variables: SHORT_WAITS }),
    );
  });

  afterAll(async () => {
    await callers.app.stop();
    await proxy.close();
    await database.drop();
  });

  it('is 503 on every route while it refuses connections, and the service goes on by itself', async () => {
    await proxy.close();
    await callers.expectNoVerdicts();
    await proxy.open();
    await callers.expectRecovered();
  });

  it('is 503 on every route while it swallows everything, connections and all, and the service goes on by itself', async () => {
    proxy.blackHole(true);
    await callers.expectNoVerdicts();
    // Connections made now are accepted and swallowed too.
    await callers.expectNoVerdicts();
    proxy.blackHole(false);
    await callers.expectRecovered();
  });

  it('costs no connection for good when a firewall forgets the connections to it', async () => {
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

  it('is 503 to those it was thinking for when the line was cut', async () => {
    proxy.blackHole(true);
    const asked = callers.askEverything();
    await proxy.close();
    expect(new Set((await asked).map(({ status }) => status))).toEqual(new Set([503]));
    proxy.blackHole(false);
    await proxy.open();
    await callers.expectRecovered();
  });
});
