import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { AppCredential } from '../../../src/domain/app-credentials/app-credential.entity.js';
import { toFailure } from '../../../src/cli/failures.js';
import { FORMER_MIGRATIONS } from '../../../src/foundation/database/define-migration.js';
import { createMigrationOptions, migrate, readSchemaState } from '../../../src/foundation/database/migrate.js';
import { Node } from '../../../src/domain/nodes/node.entity.js';
import { Operator } from '../../../src/domain/operators/operator.entity.js';
import { Session } from '../../../src/domain/tokens/sessions.service.js';
import { User } from '../../../src/domain/users/users.service.js';
import { eventually } from '../../../tools/eventually.js';
import { createTwoRoles } from '../../support/roles.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

/** Differences on purpose: only the migrations have the foreign key (no relations in entities) and comments. */
const ONLY_IN_MIGRATIONS = [
  /^ALTER TABLE "sessions" DROP CONSTRAINT "sessions_user_id_fkey"$/,
  /^COMMENT ON (COLUMN|TABLE) "[\w".]+" IS NULL$/,
];

describe('the migrations', () => {
  let database: TestDatabase;
  let dataSource: DataSource;

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
    dataSource = new DataSource({
      ...createMigrationOptions(database.url),
      entities: [User, Session, Node, AppCredential, Operator],
    });
    await dataSource.initialize();
  });

  afterAll(async () => {
    await dataSource.destroy();
    await database.drop();
  });

  /** The whole schema: columns in full, indexes, constraints, comments, functions and types, without those of extensions. */
  const schema = () =>
    database.query(
      `SELECT table_name, column_name AS name, concat_ws(' ', ordinal_position, data_type, is_nullable, column_default) AS definition
         FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'migrations'
       UNION ALL SELECT tablename, indexname, indexdef FROM pg_indexes
         WHERE schemaname = 'public' AND tablename <> 'migrations'
       UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'migrations'
       UNION ALL SELECT objoid::regclass::text, objsubid::text, description FROM pg_description
         WHERE classoid = 'pg_class'::regclass
           AND objoid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
       UNION ALL SELECT proname, 'function', prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
       UNION ALL SELECT typname, 'type', typtype::text FROM pg_type
         WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
       ORDER BY 1, 2, 3`,
    );

  const exists = async (table: string): Promise<boolean> =>
    (await database.query('SELECT FROM pg_tables WHERE tablename = $1', [table])).length > 0;

  const drift = async (): Promise<string[]> => {
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    return upQueries
      .map(({ query }) => query)
      .filter((query) => !ONLY_IN_MIGRATIONS.some((known) => known.test(query)));
  };

  it('run up, down and up again to the same schema, without drift from the entities', async () => {
    expect(await migrate(database.url)).toHaveLength(dataSource.migrations.length);
    const before = await schema();
    expect(before.length).toBeGreaterThan(40);
    expect(await drift()).toEqual([]);
    for (let undone = 0; undone < dataSource.migrations.length; undone++) await dataSource.undoLastMigration();
    expect(await schema()).toEqual([]);
    await dataSource.runMigrations();
    expect(await schema()).toEqual(before);
    expect(await drift()).toEqual([]);
  });

  it.each([
    ['a column that no entity has', 'ALTER TABLE nodes ADD COLUMN stray text', 'ALTER TABLE nodes DROP COLUMN stray'],
    [
      'an index that is missing',
      'DROP INDEX nodes_household_id_idx',
      'CREATE INDEX nodes_household_id_idx ON nodes (household_id, id)',
    ],
    ['another nullability', 'ALTER TABLE nodes ALTER room DROP NOT NULL', 'ALTER TABLE nodes ALTER room SET NOT NULL'],
  ])('are reported as drifted with %s', async (_name, change, undo) => {
    await database.query(change);
    expect(await drift()).not.toEqual([]);
    await database.query(undo);
    expect(await drift()).toEqual([]);
  });

  it('let requests pass while they wait for a long transaction', async () => {
    await dataSource.undoLastMigration();
    const [writer, request] = [new Client(database.url), new Client(database.url)];
    await Promise.all([writer.connect(), request.connect()]);
    await writer.query('BEGIN; LOCK TABLE throttle_counters IN ROW EXCLUSIVE MODE');
    // TypeORM prints each attempt that fails.
    const print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    const migrating = migrate(database.url);
    await request.query(`SET statement_timeout = '20s'`);
    await eventually('two attempts have failed', async () => {
      await request.query('UPDATE throttle_counters SET points = 0 WHERE false');
      return print.mock.calls.length >= 2;
    });
    expect(await exists('throttle_counters')).toBe(true);
    await writer.query('COMMIT');
    expect(await migrating).toHaveLength(1);
    print.mockRestore();
    await Promise.all([writer.end(), request.end()]);
  });

  it('are idempotent', async () => {
    expect(await migrate(database.url)).toEqual([]);
  });

  it('name every constraint and index by hand', async () => {
    const names = await database.query<{ table: string; name: string }>(
      `SELECT conrelid::regclass::text AS table, conname AS name FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND contype <> 'n' AND conrelid::regclass::text <> 'migrations'
       UNION SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'migrations'`,
    );
    const isByHand = ({ table, name }: (typeof names)[number]): boolean =>
      name.startsWith(table) && /_(pkey|key|fkey|idx|check)$/.test(name);
    expect(names.filter((name) => !isByHand(name))).toEqual([]);
  });
});

describe('the migrations, on a database of version 0.1.0,', () => {
  let database: TestDatabase;
  let dataSource: DataSource;
  let print: jest.SpiedFunction<typeof console.log>;

  beforeEach(async () => {
    // TypeORM prints what fails.
    print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    database = await createTestDatabase();
    dataSource = await new DataSource(createMigrationOptions(database.url)).initialize();
    // What came after the initial migrations.
    await dataSource.undoLastMigration();
    await database.query('DELETE FROM migrations');
  });

  afterEach(async () => {
    print.mockRestore();
    await dataSource.destroy();
    await database.drop();
  });

  const pretend = (names: readonly string[]): Promise<unknown> =>
    database.query(
      'INSERT INTO migrations (timestamp, name) SELECT right(name, 13)::bigint, name FROM unnest($1::text[]) AS name',
      [names],
    );

  const applied = async (): Promise<string[]> =>
    (await database.query<{ name: string }>('SELECT name FROM migrations ORDER BY id')).map(({ name }) => name);

  it('record the initial ones, run the others, and keep the former names', async () => {
    await pretend(FORMER_MIGRATIONS);
    // The statements of the initial migrations would fail, because the tables exist.
    const recorded = await migrate(database.url);
    expect(recorded).toEqual(dataSource.migrations.map(({ constructor }) => constructor.name));
    expect(await applied()).toEqual([...FORMER_MIGRATIONS, ...recorded]);
    expect(await readSchemaState(database.url)).toEqual({ pending: [], unknown: [], isEmpty: false });
    expect(await migrate(database.url)).toEqual([]);
  });

  it('are refused while some of the former ones are missing, and change nothing', async () => {
    await pretend(FORMER_MIGRATIONS.slice(1));
    await expect(migrate(database.url)).rejects.toThrow(/30 of the 31 migrations.* 48b3efd6 first/);
    const failure = toFailure(await readSchemaState(database.url).catch((error: unknown) => error));
    expect(failure).toEqual({ code: 'schema_outdated', message: expect.stringContaining('commit 48b3efd6') as string });
    expect(await applied()).toEqual(FORMER_MIGRATIONS.slice(1));
  });

  it('are reverted as far as they made something, and not the tables of that version', async () => {
    await pretend(FORMER_MIGRATIONS);
    const recorded = await migrate(database.url);
    await dataSource.undoLastMigration();
    await expect(dataSource.undoLastMigration()).rejects.toThrow('Version 0.1.0 made these tables');
    expect(await applied()).toEqual([...FORMER_MIGRATIONS, ...recorded.slice(0, -1)]);
    for (const table of ['credential_change_purges', 'throttle_counters'])
      expect(await database.query('SELECT to_regclass($1) AS found', [table])).toEqual([{ found: table }]);
  });
});

describe('the indexes of searches', () => {
  it.each([
    ['are made by the owner of the database', true, ['nodes_search_idx', 'users_email_search_idx']],
    ['are left out where the role may not create pg_trgm', false, []],
  ])('%s, and the migrations succeed', async (_name, ownsDatabase, indexes) => {
    const roles = await createTwoRoles();
    const { database, ownerUrl } = roles;
    const name = new URL(ownerUrl).pathname.slice(1);
    if (!ownsDatabase) await database.query(`ALTER DATABASE ${name} OWNER TO CURRENT_USER`);
    await migrate(ownerUrl);
    const found = await database.query<{ name: string }>(
      `SELECT indexname AS name FROM pg_indexes WHERE schemaname = 'public' AND indexname LIKE '%search_idx' ORDER BY 1`,
    );
    expect(found.map(({ name }) => name)).toEqual(indexes);
    await roles.drop();
  });
});
