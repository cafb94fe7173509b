import { Client } from 'pg';
import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { PASSWORD, TestApp, type Device, type Service, type Tokens, type User } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const BOUNDS = { DATABASE_CONNECT_TIMEOUT_MS: '300', DATABASE_STATEMENT_TIMEOUT_MS: '300', HEALTH_TIMEOUT_MS: '200' };

describe('a database that cannot be asked', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let app: TestApp;
  let alice: User;
  let tokens: Tokens;
  let node: Device;
  let service: Service;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    app = await TestApp.start({ database: { ...database, url: proxy.url }, variables: BOUNDS });
    alice = await app.user();
    tokens = await alice.logsIn();
    node = await app.node();
    service = await app.service();
  });

  afterAll(async () => {
    await app.stop();
    await proxy.close();
    await database.drop();
  });

  /** Every route that needs the database answers 503, whatever it was asked; what does not need it goes on. */
  const expectNoVerdicts = async (): Promise<void> => {
    const answers = await Promise.all([
      app.post('/api/v0/auth/register', { email: 'new@example.org', password: PASSWORD }),
      app.login(alice.email),
      app.login(alice.email, 'wrong password'),
      app.refresh(tokens.refresh_token),
      app.logout(tokens.refresh_token),
      app.me(tokens.access_token),
      app.get(`/api/v0/users/${alice.id}`).set(service.headers),
      app.validateNode(node.header),
      app.validateNode(`${node.nodeId}:wrong`),
      app.validateApp(service.headers),
      app.admin.get('/nodes'),
      app.admin.post('/nodes', { household_id: node.householdId, room: 'hall', name: 'lamp' }),
      app.admin.delete(`/nodes/${node.nodeId}`),
      app.admin.post(`/app-credentials/${service.appId}/rotate`),
    ]);
    for (const answer of answers) {
      expectProblem(answer, problems.unavailable);
      expect(answer.text).not.toMatch(/ECONN|terminated|timeout|postgres/i);
    }
    const health = await app.get('/health');
    expect(health.status).toBe(503);
    expect(health.headers['retry-after']).toBe('2');
    expect(health.body).toMatchObject({ status: 'error', details: { database: { status: 'down' } } });
    await app.get('/health/live').expect(200);
  };

  const expectRecovered = async (): Promise<void> => {
    while ((await app.get('/health')).status !== 200);
    await app.validateNode(node.header).expect(200);
    await app.validateApp(service.headers).expect(200);
    await app.me(tokens.access_token).expect(200);
    await app.login(alice.email).expect(200);
    tokens = (await app.refresh(tokens.refresh_token).expect(200)).body as Tokens;
  };

  it('is 503 on every route while it refuses connections, and the service goes on by itself', async () => {
    await proxy.close();
    await expectNoVerdicts();
    await proxy.open();
    await expectRecovered();
  });

  it('is 503 on every route within its bound while it swallows everything', async () => {
    proxy.blackHole(true);
    await expectNoVerdicts();
    proxy.blackHole(false);
    await expectRecovered();
  });

  it('is 503 while a lock cannot be had and the pool is exhausted, and never a verdict', async () => {
    const small = await TestApp.start({ database, variables: { ...BOUNDS, DATABASE_POOL_SIZE: '1' } });
    const holder = new Client({ connectionString: database.url });
    await holder.connect();
    await holder.query('BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE');
    const waiting = await Promise.all(Array.from({ length: 10 }, () => small.refresh(tokens.refresh_token)));
    for (const answer of waiting) expectProblem(answer, problems.unavailable);
    const [validated, live] = await Promise.all([small.validateNode(node.header), small.get('/health/live')]);
    expect([200, 503]).toContain(validated.status);
    expect(live.status).toBe(200);
    await holder.query('ROLLBACK');
    await holder.end();
    await small.validateNode(node.header).expect(200);
    tokens = (await small.refresh(tokens.refresh_token).expect(200)).body as Tokens;
    await small.stop();
  });

  it('goes on validating, and answers 503 to writes, while it is read-only', async () => {
    const name = new URL(database.url).pathname.slice(1);
    const rotated = (await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200)).body as { api_key: string };
    await database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    // Connections made from now on are read-only.
    await proxy.close();
    await proxy.open();
    await app.validateNode(node.header).expect(200);
    await app.validateNode(`${node.nodeId}:${rotated.api_key}`).expect(200);
    await app.validateApp(service.headers).expect(200);
    await app.me(tokens.access_token).expect(200);
    expectProblem(await app.refresh(tokens.refresh_token), problems.unavailable);
    expectProblem(await app.login(alice.email), problems.unavailable);
    expectProblem(await app.admin.delete(`/nodes/${node.nodeId}`), problems.unavailable);
    await database.query(`BEGIN READ WRITE; ALTER DATABASE ${name} RESET default_transaction_read_only; COMMIT`);
    await proxy.close();
    await proxy.open();
    await expectRecovered();
  });
});
