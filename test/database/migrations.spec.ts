import { DataSource } from 'typeorm';
import { AppCredential } from '../../src/app-credentials/app-credential.entity.js';
import { migrationOptions } from '../../src/database/database-options.js';
import { migrate } from '../../src/database/migrate.js';
import { NodeDevice } from '../../src/nodes/node-device.entity.js';
import { Session } from '../../src/tokens/session.entity.js';
import { User } from '../../src/users/user.entity.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

/** What the migrations hold and the entities, on purpose, do not: foreign keys (no relations) and comments. */
const ONLY_IN_MIGRATIONS = /FOREIGN KEY|DROP CONSTRAINT "\w+_fkey"|COMMENT ON/;

describe('the migrations', () => {
  let database: TestDatabase;
  let dataSource: DataSource;

  beforeAll(async () => {
    database = await createTestDatabase();
    dataSource = new DataSource({
      ...migrationOptions(database.url),
      entities: [User, Session, NodeDevice, AppCredential],
    });
    await dataSource.initialize();
  });

  afterAll(async () => {
    await dataSource.destroy();
    await database.drop();
  });

  const schema = () =>
    database.query(
      `SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
       WHERE table_schema = 'public' AND table_name <> 'migrations'
       UNION ALL SELECT tablename, indexname, indexdef, '' FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'migrations'
       UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), '' FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'migrations'
       ORDER BY 1, 2, 3`,
    );

  const drift = async (): Promise<string[]> => {
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    return upQueries.map(({ query }) => query).filter((query) => !ONLY_IN_MIGRATIONS.test(query));
  };

  it('run up, down and up again, and end where they began, without drift from the entities', async () => {
    expect(await migrate(database.url)).toHaveLength(1);
    const before = await schema();
    expect(before.length).toBeGreaterThan(40);
    expect(await drift()).toEqual([]);
    await dataSource.undoLastMigration();
    expect(await schema()).toEqual([]);
    await dataSource.runMigrations();
    expect(await schema()).toEqual(before);
    expect(await drift()).toEqual([]);
  });

  it('find nothing to do the second time', async () => {
    expect(await migrate(database.url)).toEqual([]);
  });

  it('name every constraint and index by hand', async () => {
    const names = await database.query<{ name: string }>(
      `SELECT conname AS name FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
         AND conrelid::regclass::text <> 'migrations'
       UNION SELECT indexname FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'migrations'`,
    );
    expect(
      names.filter(({ name }) => !/^(users|sessions|nodes|app_credentials)_\w+_?(pkey|key|fkey|idx|check)$/.test(name)),
    ).toEqual([]);
  });
});
