import { readFileSync } from 'node:fs';
import { migrate } from '../../../src/foundation/database/migrate.js';
import { fromRoot } from '../../support/from-root.js';
import { useTestDatabase } from '../../support/test-database.js';
import { readSchema } from './read-schema.js';

const readFixture = (name: string): string =>
  readFileSync(fromRoot(`test/foundation/database/fixture/${name}`), 'utf8');

/** Until 0.1.0 is released, `npm run fixture:schema` renews its schema. */
describe('a database of version 0.1.0', () => {
  const fresh = useTestDatabase();
  const database = useTestDatabase({ isEmpty: true });

  beforeAll(async () => {
    await database.query(readFixture('0.1.0.sql'));
    await database.query(readFixture('rows.sql'));
  });

  it('has a row in each table, so that a migration which works on empty tables only fails here', async () => {
    const tables = await database.query<{ name: string }>(
      `SELECT relname AS name FROM pg_class
       WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`,
    );
    expect(tables.length).toBeGreaterThan(20);
    const counts = tables.map(({ name }) => `SELECT '${name}' AS name WHERE NOT EXISTS (SELECT FROM ${name})`);
    expect(await database.query(counts.join(' UNION ALL '))).toEqual([]);
  });

  it('gets the schema of a fresh database from the migrations that came later', async () => {
    await migrate(database.url);
    expect(await readSchema(database)).toEqual(await readSchema(fresh));
    expect(await migrate(database.url)).toEqual([]);
  });
});
