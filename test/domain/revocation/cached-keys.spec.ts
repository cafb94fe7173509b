import { problems } from '../../../src/foundation/problems/problems.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { lockTables, openTransaction } from '../../support/row-lock.js';
import { ServiceProcess } from '../../support/service-process.js';
import { TcpProxy } from '../../../tools/tcp-proxy.js';
import { VARIABLES } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { expectVerdict, untilVerdict } from '../../support/until-verdict.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { useApp } from '../../support/use-app.js';

// Long enough not to expire by chance during a test.
const LEASE = { REVOCATION_LEASE_MS: '2000' };

const SHORT_WAITS = { databaseConnectTimeoutMs: 1_000, databaseStatementTimeoutMs: 1_000 };

describe('a credential that was verified', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let app: TestApp;
  /** Sees the database through the proxy. */
  let other: TestApp;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    app = await TestApp.start({ database, variables: LEASE });
    other = await TestApp.start({ database: { ...database, url: proxy.url }, variables: LEASE, settings: SHORT_WAITS });
  });

  afterAll(async () => {
    await other.stop();
    await app.stop();
    await proxy.close();
    await database.drop();
  });

  /** Locks the tables of credentials, so that they cannot be read. */
  const whileTablesAreLocked = async <Result>(check: () => Promise<Result>): Promise<Result> => {
    const locker = await lockTables(database, 'nodes, app_credentials');
    try {
      return await check();
    } finally {
      await locker.end();
    }
  };

  it('is accepted without the database, and refusals come only from the database', async () => {
    // Its lease does not end while this test runs.
    const holder = await TestApp.start({
      database,
      variables: { ...LEASE, OUTAGE_GRACE_SECONDS: '3600' },
      settings: SHORT_WAITS,
    });
    const [node, service] = [await app.node(), await app.service()];
    await expectVerdict(200, () => holder.validateNode(node.header));
    await expectVerdict(200, () => holder.validateApp(service.headers));
    await whileTablesAreLocked(async () => {
      const answer = await holder.validateNode(node.header).expect(200);
      expect(answer.body).toEqual({ valid: true, node_id: node.nodeId, household_id: node.householdId });
      await holder.validateApp(service.headers, { target: service.target }).expect(200);
      expectProblem(await holder.validateApp(service.headers, { target: 'other' }), problems.invalidAppCredentials);
      expectProblem(await holder.validateNode(`${node.nodeId}:wrong`), problems.unavailable);
      // The cache of one door does not serve another.
      const crossed = { 'X-Platform-App-Id': node.nodeId, 'X-Platform-App-Key': node.apiKey };
      expectProblem(await holder.validateApp(crossed), problems.unavailable);
    });
    await holder.stop();
  });

  it('is refused by every replica once the revoking call has answered', async () => {
    const [node, service] = [await app.node(), await app.service()];
    for (const replica of [app, other]) {
      await expectVerdict(200, () => replica.validateNode(node.header));
      await expectVerdict(200, () => replica.validateApp(service.headers));
    }
    await Promise.all([
      app.admin.delete(`/nodes/${node.nodeId}`).expect(204),
      other.admin.delete(`/app-credentials/${service.appId}`).expect(204),
    ]);
    for (const replica of [app, other]) {
      expectProblem(await untilVerdict(() => replica.validateNode(node.header)), problems.invalidNodeCredentials);
      expectProblem(await untilVerdict(() => replica.validateApp(service.headers)), problems.invalidAppCredentials);
    }
  });

  it('is refused by a replica that is cut off from the database', async () => {
    const node = await app.node();
    await expectVerdict(200, () => other.validateNode(node.header));
    proxy.blackHole(true);
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expectProblem(await other.validateNode(node.header), problems.unavailable);
    proxy.blackHole(false);
    await eventually('the replica is back', async () => (await other.validateNode(node.header)).status === 401);
  });

  it('is refused once its expiry was moved to an earlier time', async () => {
    const node = await app.node();
    await expectVerdict(200, () => other.validateNode(node.header));
    const expires_at = new Date(Date.now() - 1_000).toISOString();
    await app.admin.patch(`/nodes/${node.nodeId}`, { expires_at }).expect(200);
    expectProblem(await untilVerdict(() => other.validateNode(node.header)), problems.invalidNodeCredentials);
  });

  it('is refused when it expires, also from the cache', async () => {
    const { nodeId, header } = await app.node();
    const expires_at = new Date(app.clock.now().getTime() + 60_000).toISOString();
    await app.admin.patch(`/nodes/${nodeId}`, { expires_at }).expect(200);
    await app.validateNode(header).expect(200);
    app.clock.advance({ minutes: 2 });
    expectProblem(await app.validateNode(header), problems.invalidNodeCredentials);
    app.clock.advance({ minutes: -2 });
  });

  it.each([
    ['revoked', 'UPDATE nodes SET revoked_at = now() WHERE id = $1'],
    ['deleted', 'DELETE FROM nodes WHERE id = $1'],
    ['given another key', `UPDATE nodes SET key_digest = decode(repeat('00', 32), 'hex') WHERE id = $1`],
  ])('is refused soon after it was %s in psql', async (_what, sql) => {
    const node = await app.node();
    await app.validateNode(node.header).expect(200);
    await database.query(sql, [node.nodeId]);
    await eventually('the node is refused', async () => (await app.validateNode(node.header)).status === 401);
  });

  it('is refused also when a later revocation commits first', async () => {
    const [first, second] = [await app.node(), await app.node()];
    for (const { header } of [first, second]) await app.validateNode(header).expect(200);
    const slow = await openTransaction(database, `UPDATE nodes SET revoked_at = now() WHERE id = '${first.nodeId}'`);
    await other.admin.delete(`/nodes/${second.nodeId}`).expect(204);
    expectProblem(await app.validateNode(second.header), problems.invalidNodeCredentials);
    await slow.query('COMMIT');
    await slow.end();
    await eventually('the first is refused', async () => (await app.validateNode(first.header)).status === 401);
  });

  it('is refused by a replica that was disconnected for longer than changes are kept', async () => {
    const patient = await TestApp.start({
      database: { ...database, url: proxy.url },
      variables: { ...LEASE, OUTAGE_GRACE_SECONDS: '86400' },
      settings: SHORT_WAITS,
    });
    const node = await app.node();
    await expectVerdict(200, () => patient.validateNode(node.header));
    await proxy.close();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    await patient.validateNode(node.header).expect(200);
    await database.query(`UPDATE credential_changes SET at = now() - interval '3 days'`);
    // As a dump of another cluster brings it.
    await database.query(`INSERT INTO credential_changes (xid, kind, credential_id, at)
      VALUES ('9000000000000000000', 'node', gen_random_uuid(), now() - interval '3 days')`);
    const left = () => database.query('SELECT FROM credential_changes');
    // Another replica may be purging.
    await eventually('old changes are purged', async () => {
      await app.nest.get(PurgeJob).purgeExpired();
      return (await left()).length === 0;
    });
    await proxy.open();
    await eventually('it is refused', async () => (await patient.validateNode(node.header)).status === 401);
    await patient.stop();
  });

  it('causes one log line when the feed is lost, and one when it is back', async () => {
    const lines = (message: string) => other.log.lines.filter((line) => line.message === message).length;
    const node = await app.node();
    const remembered = async () => (await other.validateNode(node.header)).status === 200;
    await eventually('the database is there', remembered);
    await eventually('the feed is there', () => lines('revocation_feed_lost') === lines('revocation_feed_back'));
    const before = lines('revocation_feed_lost');
    await proxy.close();
    await eventually('it is lost', () => lines('revocation_feed_lost') > before);
    await eventually('the lease is over', async () => !(await remembered()));
    await proxy.open();
    await eventually('it is back', () => lines('revocation_feed_back') > before);
    expect([lines('revocation_feed_lost'), lines('revocation_feed_back')]).toEqual([before + 1, before + 1]);
    await eventually('the database is back', remembered);
    await eventually('it is remembered', async () => {
      await remembered();
      return whileTablesAreLocked(remembered);
    });
  });

  it('is cached through an outage no longer than the lease, or for as long as the operator allows', async () => {
    const patient = await TestApp.start({
      database: { ...database, url: proxy.url },
      variables: { ...LEASE, OUTAGE_GRACE_SECONDS: '3600' },
    });
    const node = await app.node();
    for (const replica of [patient, other]) await expectVerdict(200, () => replica.validateNode(node.header));
    await proxy.close();
    expectProblem(await other.validateNode('unknown:key'), problems.invalidNodeCredentials);
    await eventually('the lease alone is over', async () => (await other.validateNode(node.header)).status === 503);
    await patient.validateNode(node.header).expect(200);
    await proxy.open();
    await eventually('the database is back', async () => (await other.validateNode(node.header)).status === 200);
    await patient.stop();
  });

  it('is refused by a process that was paused during its revocation', async () => {
    const variables = { ...VARIABLES, DATABASE_URL: database.url, REVOCATION_LEASE_MS: '300' };
    const sleeper = await ServiceProcess.start(variables);
    const node = await app.node();
    const ask = () =>
      fetch(`${sleeper.url}/internal/validate-node`, { method: 'POST', headers: { 'X-API-Key': node.header } });
    expect((await ask()).status).toBe(200);
    sleeper.kill('SIGSTOP');
    const asked = ask();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    sleeper.kill('SIGCONT');
    expect((await asked).status).toBe(401);
    expect(await sleeper.stop()).toBe(0);
  });
});

const FEED = `SELECT pid FROM pg_stat_activity
  WHERE application_name = 'platform-auth-revocations' AND datname = current_database()`;

describe('a cached key whose revocation fired no trigger', () => {
  const app = useApp({ variables: { REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('is evicted when the feed has a new connection, also with an outage grace', async () => {
    const node = await app.node();
    await app.validateNode(node.header).expect(200);
    await app.database.query(`ALTER TABLE nodes DISABLE TRIGGER USER;
      UPDATE nodes SET revoked_at = now(); ALTER TABLE nodes ENABLE TRIGGER USER`);
    await app.validateNode(node.header).expect(200);
    await app.database.query(`SELECT pg_terminate_backend(pid) FROM (${FEED}) AS feed`);
    await eventually('it is refused', async () => (await app.validateNode(node.header)).status === 401);
  });

  it('is evicted by a bulk change, and validations are answered from the cache again', async () => {
    const nodes = [await app.node(), await app.node()];
    for (const { header } of nodes) await app.validateNode(header).expect(200);
    await app.database.query(
      `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
       SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'lamp', decode(repeat('00', 32), 'hex'), now(), now()
       FROM generate_series(1, 20000)`,
    );
    await app.database.query('UPDATE nodes SET revoked_at = now() WHERE id <> $1', [nodes[1]!.nodeId]);
    await eventually('it is refused', async () => (await app.validateNode(nodes[0]!.header)).status === 401);
    await app.validateNode(nodes[1]!.header).expect(200);
    const locker = await lockTables(app.database, 'nodes');
    await app.validateNode(nodes[1]!.header).expect(200);
    await locker.end();
    expect(app.log.lines.filter(({ message }) => message === 'revocation_feed_lost')).toHaveLength(1);
  });
});
