// Writes the schema of version 0.1.0, from which later migrations are tested, as SQL. After the release the file never
// changes, as its migrations do not.
import { writeFileSync } from 'node:fs';
import type { QueryRunner } from 'typeorm';
import { MIGRATIONS } from '../src/foundation/database/migrate.js';
import { READ_SCHEMA } from '../src/foundation/database/sql-migration.js';

const FILE = 'test/foundation/database/fixture/0.1.0.sql';
/** TypeORM creates this table itself. */
const TABLE_OF_MIGRATIONS = `CREATE TABLE migrations (
  id        serial CONSTRAINT migrations_pkey PRIMARY KEY,
  timestamp bigint  NOT NULL,
  name      varchar NOT NULL
)`;

const statements = [TABLE_OF_MIGRATIONS];
const runner = {
  query: (sql: string): Promise<unknown> => {
    if (sql === READ_SCHEMA) return Promise.resolve([{ schema: 'public' }]);
    statements.push(sql);
    return Promise.resolve([]);
  },
} as QueryRunner;
for (const Migration of MIGRATIONS) {
  await new Migration().up(runner);
  const { name } = Migration;
  statements.push(`INSERT INTO migrations (timestamp, name) VALUES (${/\d+$/.exec(name)?.[0]}, '${name}')`);
}
writeFileSync(
  FILE,
  `-- Written by npm run fixture:schema.\n\n${statements.map((statement) => statement.trim().replace(/;?$/, ';')).join('\n\n')}\n`,
);
