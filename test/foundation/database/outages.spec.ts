import { Client, DatabaseError } from 'pg';
import { QueryFailedError } from 'typeorm';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { Callers, SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { TestApp, type Tokens } from '../../support/test-app.js';
import { refuseUnusable } from '../../../src/foundation/database/connection-check.js';
import { isDatabaseFailure } from '../../../src/foundation/database/database-failure.js';
import { holdTable } from '../../support/row-lock.js';
import { ServiceProcess } from '../../support/service-process.js';
import { PASSWORD, VARIABLES } from '../../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { TransactionPooler } from '../../support/transaction-pooler.js';
import { useApp } from '../../support/use-app.js';
import { expectVerdict, untilVerdict } from '../../support/until-verdict.js';

describe('an overloaded database', () => {
  let callers: Callers;

  const start = async (databaseStatementTimeoutMs: number): Promise<void> => {
    const variables = { ...SHORT_WAITS.variables, DATABASE_POOL_SIZE: '1' };
    const settings = { ...SHORT_WAITS.settings, databaseStatementTimeoutMs };
    callers = await Callers.of(await TestApp.start({ variables, settings }));
  };

  afterEach(() => callers.app.stop());

  it('answers 503 while the pool is exhausted, and again with verdicts once it is not', async () => {
    await start(20_000);
    const { app, tokens } = callers;
    const sessions = await holdTable(app.database, 'sessions');
    const slow = app.refresh(tokens.refresh_token).then((answer) => answer);
    await sessions.waiting(1);
    await callers.expectAllUnavailable();
    // The check has a connection of its own: the database itself is usable.
    await eventually('it is ready', async () => (await app.get('/health')).status === 200);
    await app.get('/health/live').expect(200);
    await sessions.release();
    const refreshed = await slow;
    expect(refreshed.status).toBe(200);
    callers.tokens = refreshed.body as Tokens;
    await callers.expectRecovered();
  });

  it('causes 503 for a refresh that waits too long for a lock, and the token stays valid', async () => {
    await start(1_000);
    const { app, tokens, alice } = callers;
    const sessions = await holdTable(app.database, 'sessions');
    const attempts = Array.from({ length: 10 }, () => app.refresh(tokens.refresh_token));
    for (const answer of await Promise.all(attempts)) expectProblem(answer, problems.unavailable);
    expectProblem(await app.login(alice.email), problems.unavailable);
    expectProblem(await app.me(tokens.access_token), problems.unavailable);
    await app.get('/health/live').expect(200);
    await sessions.release();
    await callers.expectRecovered();
  });
});

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
  const failWith = (code: string): Error => Object.assign(new DatabaseError('', 0, 'error'), { code });

  it.each(['42P05', '26000', '08P01', '57P01', '57P02', '57P03', '53300', '58P01', 'XX000', '25P02'])(
    '(SQLSTATE %s) counts as a database outage',
    (code) => expect(isDatabaseFailure(failWith(code))).toBe(true),
  );

  it.each(['EPIPE', 'EADDRNOTAVAIL', 'ENETDOWN', 'EMFILE', 'EAI_FAIL', 'ERR_STREAM_DESTROYED'])(
    '(error code %s of the socket) counts as a database outage',
    (code) => expect(isDatabaseFailure(new QueryFailedError('', [], Object.assign(new Error(), { code })))).toBe(true),
  );

  it.each(['42601', '42P01', '23505', '22P02'])(
    'is not reported by SQLSTATE %s, which is a bug of the service',
    (code) => expect(isDatabaseFailure(failWith(code))).toBe(false),
  );
});

const TABLES = ['users', 'sessions', 'nodes', 'app_credentials'];

describe('a database that refuses writes', () => {
  const app = useApp({ isBehindProxy: true, ...SHORT_WAITS });
  let callers: Callers;
  let rotatedHeader: string;
  let rotatedService: Record<string, string>;

  beforeAll(async () => {
    callers = await Callers.of(app);
    rotatedHeader = await withPatientReplica(app, async (patient) => {
      const { nodeId } = await patient.node();
      const rotated = await patient.admin.post(`/nodes/${nodeId}/rotate`).expect(200);
      return `${nodeId}:${(rotated.body as { api_key: string }).api_key}`;
    });
    rotatedService = await withPatientReplica(app, async (patient) => {
      const { appId, headers } = await patient.service();
      const { body } = await patient.admin.post(`/app-credentials/${appId}/rotate`).expect(200);
      return { ...headers, 'X-Platform-App-Key': (body as { app_key: string }).app_key };
    });
  });

  /** Validations are still answered, also the first use of a rotated key, which is normally recorded. */
  const expectValidationsOnly = async (): Promise<void> => {
    const { alice, tokens, node, service } = callers;
    for (const call of [
      () => app.validateNode(node.header),
      () => app.validateNode(rotatedHeader),
      () => app.validateApp(service.headers),
      () => app.validateApp(rotatedService),
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
    await app.proxy.close();
    await app.proxy.open();
  };

  it('causes 503 for writes only when it is set to read-only', async () => {
    const name = new URL(app.database.url).pathname.slice(1);
    await app.database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await reconnect();
    await expectValidationsOnly();
    await expectVerdict(200, () => app.validateNode(rotatedHeader));
    expect(app.log.lines.filter(({ message }) => message === 'overlap_not_ended')).toHaveLength(1);
    await app.database.query(`BEGIN READ WRITE; ALTER DATABASE ${name} RESET default_transaction_read_only; COMMIT`);
    await reconnect();
    await callers.expectRecovered();
  });

  it('causes 503 for writes only when the disk is full', async () => {
    await app.database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`);
    for (const table of TABLES) {
      await app.database.query(
        `CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
      );
    }
    await expectValidationsOnly();
    await app.database.query('DROP FUNCTION refuse() CASCADE');
    await callers.expectRecovered();
  });
});
