import { Client } from 'pg';
import type { Variables } from '../../src/config/environment.js';
import { LOCKS } from '../../src/database/locks.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { VARIABLES, withSettings } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

/** Long enough for a process to start on a busy machine. */
const LIMIT = { startTimeoutSeconds: 5 };
const WARNINGS = { ...VARIABLES, LOG_LEVEL: 'warn', ...withSettings(LIMIT) };

describe('a start that waits', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;

  beforeEach(async () => {
    database = await createTestDatabase({ isEmpty: true });
    proxy = await TcpProxy.before(database.url);
  });

  afterEach(async () => {
    await endAll();
    await proxy.close();
    await database.drop();
  });

  /** Starts the service, which must time out and report what it waits for, meanwhile and at the end. */
  const expectGivenUp = async (waitingFor: string, more: Variables = {}): Promise<string> => {
    const service = await ServiceProcess.spawn({ ...WARNINGS, DATABASE_URL: proxy.url, ...more });
    expect(await service.exited()).toBe(1);
    const lines = service.output.split('\n').filter((line) => line.includes('"start_waits"'));
    expect(lines.map((line) => (JSON.parse(line) as { waiting_for: string }).waiting_for)).toContain(waitingFor);
    expect(service.output).toContain(`waiting for ${waitingFor}`);
    return service.output;
  };

  it('for a database that does not respond logs that, and exits with 1', async () => {
    proxy.blackHole(true);
    await expectGivenUp('an answer of the database');
  });

  it('for a database that refuses connections exits with the reason', async () => {
    await proxy.close();
    expect(await expectGivenUp('a database that can be used')).toContain('ECONNREFUSED');
    await proxy.open();
  });

  it.each(['CREATE TABLE users', 'COMMIT'])(
    'for a migration whose packets are dropped from %s on exits, and names the migrations',
    async (statement) => {
      proxy.blackHoleFrom(statement);
      await expectGivenUp('the migrations of the schema');
      expect(proxy.swallowedBytes).toBeGreaterThan(0);
    },
  );

  it.each([
    [1, 'the connections to the database'],
    [2, 'the workers'],
  ])('for the first connection of the pool exits (%i workers)', async (workers, waitingFor) => {
    proxy.blackHoleFrom('application_name\0platform-auth\0');
    const settings = withSettings({ ...LIMIT, databaseConnectTimeoutMs: 60_000 });
    await expectGivenUp(waitingFor, { ...settings, WORKERS: String(workers) });
  });

  it('for the migration lock exits', async () => {
    const holder = new Client({ connectionString: database.url });
    await holder.connect();
    await holder.query('SELECT pg_advisory_lock($1)', [LOCKS.migrations]);
    await expectGivenUp('the lock of the migrations, which another process holds or held');
    await holder.end();
  });

  it('for a migration that is blocked by the transaction of another client exits', async () => {
    const other = new Client({ connectionString: database.url });
    await other.connect();
    await other.query('BEGIN; CREATE TABLE app_credentials ()');
    await expectGivenUp('the migrations of the schema');
    await other.end();
  });

  it('for a migration that PostgreSQL executes does not time out', async () => {
    await database.query(`CREATE FUNCTION delay() RETURNS event_trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.06); END $$`);
    await database.query('CREATE EVENT TRIGGER slow ON ddl_command_end EXECUTE FUNCTION delay()');
    const service = await ServiceProcess.start({ ...WARNINGS, DATABASE_URL: proxy.url });
    expect(service.output).toContain('the migrations of the schema');
    expect(await service.stop()).toBe(0);
  });
});
