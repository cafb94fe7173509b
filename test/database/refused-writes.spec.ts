import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { Callers, SHORT_WAITS, withPatientReplica } from '../support/outage.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { PASSWORD } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { expectVerdict, untilVerdict } from '../support/until-verdict.js';

const TABLES = ['users', 'sessions', 'nodes', 'app_credentials'];

describe('a database that refuses writes', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let callers: Callers;
  let rotatedHeader: string;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    const app = await TestApp.start({ database: { ...database, url: proxy.url }, ...SHORT_WAITS });
    callers = await Callers.of(app);
    rotatedHeader = await withPatientReplica(app, async (patient) => {
      const { nodeId } = await patient.node();
      const rotated = await patient.admin.post(`/nodes/${nodeId}/rotate`).expect(200);
      return `${nodeId}:${(rotated.body as { api_key: string }).api_key}`;
    });
  });

  afterAll(async () => {
    await callers.app.stop();
    await proxy.close();
    await database.drop();
  });

  /** Validations are still answered, also the first use of a rotated key, which is normally recorded. */
  const expectValidationsOnly = async (): Promise<void> => {
    const { app, alice, tokens, node, service } = callers;
    for (const call of [
      () => app.validateNode(node.header),
      () => app.validateNode(rotatedHeader),
      () => app.validateApp(service.headers),
      () => app.me(tokens.access_token),
    ])
      await expectVerdict(200, call);
    const wrong = await untilVerdict(() => app.validateNode(`${node.nodeId}:wrong`));
    expectProblem(wrong, problems.invalidNodeCredentials);
    const writes = await Promise.all([
      app.post('/api/v0/auth/register', { email: 'new@example.org', password: PASSWORD }),
      app.login(alice.email),
      app.refresh(tokens.refresh_token),
      app.logout(tokens.refresh_token),
      app.admin.post('/nodes', { household_id: node.householdId, room: 'hall', name: 'lamp' }),
      app.admin.patch(`/nodes/${node.nodeId}`, { room: 'hall' }),
      app.admin.delete(`/nodes/${node.nodeId}`),
      app.admin.post(`/app-credentials/${service.appId}/rotate`),
      app.admin.patch(`/users/${alice.id}`, { is_active: false }),
      app.admin.delete(`/users/${alice.id}/sessions`),
    ]);
    for (const answer of writes) expectProblem(answer, problems.unavailable);
  };

  /** Settings of a database apply to new connections. */
  const reconnect = async (): Promise<void> => {
    await proxy.close();
    await proxy.open();
  };

  it('causes 503 for writes only when it is set to read-only', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await reconnect();
    await expectValidationsOnly();
    await expectVerdict(200, () => callers.app.validateNode(rotatedHeader));
    expect(callers.app.log.lines.filter(({ message }) => message === 'overlap_not_ended')).toHaveLength(1);
    await database.query(`BEGIN READ WRITE; ALTER DATABASE ${name} RESET default_transaction_read_only; COMMIT`);
    await reconnect();
    await callers.expectRecovered();
  });

  it('causes 503 for writes only when the disk is full', async () => {
    await database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`);
    for (const table of TABLES) {
      await database.query(
        `CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
      );
    }
    await expectValidationsOnly();
    await database.query('DROP FUNCTION refuse() CASCADE');
    await callers.expectRecovered();
  });
});
