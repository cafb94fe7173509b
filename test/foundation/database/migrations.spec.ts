import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { AppCredential } from '../../../src/domain/app-credentials/app-credential.entity.js';
import { toFailure } from '../../../src/cli/failures.js';
import { createMigrationOptions, migrate } from '../../../src/foundation/database/migrate.js';
import { Household } from '../../../src/domain/households/household.entity.js';
import { HouseholdInvitation } from '../../../src/domain/households/household-invitation.entity.js';
import { NodeEnrolment } from '../../../src/domain/nodes/node-enrolment.entity.js';
import { Node } from '../../../src/domain/nodes/node.entity.js';
import { Operator } from '../../../src/domain/operators/operator.entity.js';
import { Session } from '../../../src/domain/tokens/session.entity.js';
import { User } from '../../../src/domain/users/user.entity.js';
import { eventually } from '../../../tools/eventually.js';
import { createTwoRoles } from '../../support/roles.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { readSchema } from './read-schema.js';

/** Differences on purpose: only the migrations have foreign keys (no relations in entities) and comments. */
const ONLY_IN_MIGRATIONS = [
  /^ALTER TABLE "(\w+)" DROP CONSTRAINT "\1_\w+_id_fkey"$/,
  /^COMMENT ON (COLUMN|TABLE) "[\w".]+" IS NULL$/,
];

describe('the migrations', () => {
  let database: TestDatabase;
  let dataSource: DataSource;

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
    dataSource = new DataSource({
      ...createMigrationOptions(database.url),
      entities: [User, Session, Node, NodeEnrolment, AppCredential, Operator, Household, HouseholdInvitation],
    });
    await dataSource.initialize();
  });

  afterAll(async () => {
    await dataSource.destroy();
    await database.drop();
  });

  const schema = () => readSchema(database);

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
    // Of all migrations but the first one, those with a foreign key lock the users.
    for (let left = dataSource.migrations.length; left > 1; left -= 1) await dataSource.undoLastMigration();
    const [writer, request] = [new Client(database.url), new Client(database.url)];
    await Promise.all([writer.connect(), request.connect()]);
    await writer.query('BEGIN; LOCK TABLE users IN ROW EXCLUSIVE MODE');
    // TypeORM prints each attempt that fails.
    const print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    const migrating = migrate(database.url);
    await request.query(`SET statement_timeout = '20s'`);
    await eventually('two attempts have failed', async () => {
      await request.query('UPDATE users SET is_active = true WHERE false');
      return print.mock.calls.length >= 2;
    });
    expect(await exists('sessions')).toBe(false);
    await writer.query('COMMIT');
    expect(await migrating).toHaveLength(dataSource.migrations.length - 1);
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

describe('a database that a commit before 0.1.0 made', () => {
  it('is refused with what to do, and is not changed', async () => {
    const database = await createTestDatabase({ isEmpty: true });
    await database.query(`CREATE TABLE migrations (id serial, timestamp bigint NOT NULL, name text NOT NULL);
      INSERT INTO migrations (timestamp, name) VALUES (1764000000000, 'CreateAccounts1764000000000')`);
    const error: unknown = await migrate(database.url).catch((thrown: unknown) => thrown);
    expect(toFailure(error)).toEqual({
      code: 'schema_outdated',
      message: expect.stringContaining('was made before 0.1.0') as string,
    });
    expect(await database.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toHaveLength(1);
    await database.drop();
  });
});

describe('the indexes of searches', () => {
  it.each([
    [
      'are made by the owner of the database',
      true,
      ['households_name_search_idx', 'nodes_search_idx', 'users_email_search_idx'],
    ],
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
