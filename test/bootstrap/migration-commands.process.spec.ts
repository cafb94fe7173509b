import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createMigrationOptions } from '../../src/database/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { fromRoot } from '../support/from-root.js';

const ROOT = fromRoot('.');
const TABLES = [
  'app_credentials',
  'audit_events',
  'audit_seal_entries',
  'audit_seals',
  'audit_settings',
  'console_sessions',
  'credential_change_purges',
  'credential_changes',
  'failed_logins',
  'failed_second_factors',
  'idempotency_keys',
  'job_runs',
  'mail_requests',
  'node_enrolments',
  'nodes',
  'one_time_tokens',
  'operators',
  'passkeys',
  'recovery_codes',
  'refused_admin_keys',
  'refused_admin_scopes',
  'refused_app_keys',
  'refused_node_targets',
  'replica_leases',
  'sessions',
  'signing_algorithms',
  'signing_keys',
  'throttle_counters',
  'throttle_windows',
  'totp_factors',
  'used_challenges',
  'users',
];
const ALL = (createMigrationOptions('postgresql://unused').migrations as unknown[]).length;
/** A process for each migration. */
const SCENARIO_MS = 600_000;

describe('the migration commands', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
  });

  afterAll(async () => {
    await database.drop();
  });

  /** What `npm run migration:…` runs after the build. */
  const command = async (name: 'run' | 'revert', databaseUrl = database.url): Promise<string> => {
    const parameters = ['node_modules/typeorm/cli.js', `migration:${name}`, '-d', 'dist/ormconfig.js'];
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', DATABASE_URL: databaseUrl };
    const { stdout } = await promisify(execFile)(process.execPath, parameters, { cwd: ROOT, env });
    return stdout;
  };

  const tables = async (): Promise<string[]> => {
    const sql =
      "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' AND tablename NOT LIKE 'audit_events_%' ORDER BY 1";
    return (await database.query<{ tablename: string }>(sql)).map(({ tablename }) => tablename);
  };

  it(
    'run and revert through ormconfig.ts',
    async () => {
      await command('run');
      expect(await tables()).toEqual(TABLES);
      await command('run');
      expect(await database.query('SELECT 1 FROM migrations')).toHaveLength(ALL);
      for (let reverted = 0; reverted < ALL; reverted += 1) await command('revert');
      expect(await tables()).toEqual([]);
      await command('run');
      expect(await tables()).toEqual(TABLES);
    },
    SCENARIO_MS,
  );

  it('name DATABASE_URL when it is missing', async () => {
    await expect(command('run', '')).rejects.toMatchObject({ code: 1 });
    await expect(command('run', '')).rejects.toThrow(/DATABASE_URL/);
  });
});
