import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createMigrationOptions } from '../../src/foundation/database/migrate.js';
import { useTestDatabase, type TestDatabase } from '../support/test-database.js';
import { fromRoot } from '../support/from-root.js';

const ROOT = fromRoot('.');
const SCENARIO_MS = 240_000;

describe('the migration commands', () => {
  const database = useTestDatabase({ isEmpty: true });
  /** By the service itself. */
  const migrated = useTestDatabase();

  /** What `npm run migration:…` runs after the build. */
  const command = async (name: 'run' | 'revert', databaseUrl = database.url): Promise<string> => {
    const parameters = ['node_modules/typeorm/cli.js', `migration:${name}`, '-d', 'dist/ormconfig.js'];
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', DATABASE_URL: databaseUrl };
    const { stdout } = await promisify(execFile)(process.execPath, parameters, { cwd: ROOT, env });
    return stdout;
  };

  const listTables = (of: TestDatabase): Promise<{ name: string }[]> =>
    of.query(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' ORDER BY name",
    );

  it(
    'run and revert through ormconfig.ts',
    async () => {
      const all = createMigrationOptions(database.url).migrations as unknown[];
      const tables = await listTables(migrated);
      expect(tables).toContainEqual({ name: 'users' });
      await command('run');
      expect(await listTables(database)).toEqual(tables);
      await command('run');
      expect(await database.query('SELECT 1 FROM migrations')).toHaveLength(all.length);
      // Of all migrations, test/foundation/database/migrations.spec.ts reverts each.
      await command('revert');
      expect(await database.query('SELECT 1 FROM migrations')).toHaveLength(all.length - 1);
      expect(await listTables(database)).not.toEqual(tables);
      await command('run');
      expect(await listTables(database)).toEqual(tables);
    },
    SCENARIO_MS,
  );

  it('name DATABASE_URL when it is missing', async () => {
    const failure = { code: 1, message: expect.stringContaining('DATABASE_URL') as string };
    await expect(command('run', '')).rejects.toMatchObject(failure);
  });
});
