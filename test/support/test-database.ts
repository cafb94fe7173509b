import { Client } from 'pg';
import { randomBytes } from 'node:crypto';

const TEMPLATE_LOCK = 1_763_683_200;

/** A database of a test's own on the server of this run. */
export interface TestDatabase {
  readonly url: string;
  /** Runs SQL as a superuser. */
  query<Row extends object = Record<string, unknown>>(sql: string, values?: unknown[]): Promise<Row[]>;
  drop(): Promise<void>;
}

/** @returns a new database with the present schema, or an empty one */
export async function createTestDatabase({ isEmpty = false } = {}): Promise<TestDatabase> {
  const serverUrl = process.env.TEST_DATABASE_URL!;
  const name = `test_${randomBytes(6).toString('hex')}`;
  const template = isEmpty ? 'template1' : await migratedTemplate(serverUrl);
  await once(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  const url = urlOf(serverUrl, name);
  return {
    url,
    query: (sql, values) => once(url, sql, values),
    drop: async () => {
      await once(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

/** The migrations run once a test run, for the first test that asks; other databases are copies of this one. */
async function migratedTemplate(serverUrl: string): Promise<string> {
  const template = process.env.TEST_TEMPLATE_DATABASE!;
  const client = new Client({ connectionString: serverUrl });
  await client.connect();
  try {
    // Test files run in parallel.
    await client.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const { rows } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [template]);
    if (rows.length > 0) return template;
    const unfinished = `${template}_unfinished`;
    await client.query(`CREATE DATABASE ${unfinished}`);
    const { migrate } = await import('../../src/database/migrate.js');
    await migrate(urlOf(serverUrl, unfinished));
    await client.query(`ALTER DATABASE ${unfinished} RENAME TO ${template}`);
    return template;
  } finally {
    await client.end();
  }
}

function urlOf(serverUrl: string, database: string): string {
  return Object.assign(new URL(serverUrl), { pathname: `/${database}` }).toString();
}

async function once<Row extends object>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(sql, values)).rows;
  } finally {
    await client.end();
  }
}
