import { randomBytes } from 'node:crypto';
import { Cleanup } from '../../../tools/cleanup.js';
import { startPostgres, UNSAFE, withClient } from '../../../tools/postgres.js';

const cleanup = new Cleanup();

/** Chooses the PostgreSQL of one test run: TEST_DATABASE_URL (a superuser's), or an embedded one that may lose its data. */
export default async function prepareRunDatabase(): Promise<void> {
  process.env.TEST_DATABASE_URL ??= await startServer();
  const url = process.env.TEST_DATABASE_URL;
  const template = `test_template_${randomBytes(6).toString('hex')}`;
  // The first test that needs this database creates it (test-database.ts).
  process.env.TEST_TEMPLATE_DATABASE = template;
  cleanup.defer(() => withClient(url, (client) => client.query(`DROP DATABASE IF EXISTS ${template}`)));
}

export function removeRunDatabase(): Promise<void> {
  return cleanup.run();
}

async function startServer(): Promise<string> {
  // Each run has hundreds of databases, whose tables the autovacuum would look through; no test needs it.
  const settings = { ...UNSAFE, max_connections: '300', autovacuum: 'off' };
  const server = await startPostgres({ cleanup, purpose: 'test', settings });
  // In watch mode, the next run must start a server of its own.
  cleanup.defer(() => delete process.env.TEST_DATABASE_URL);
  await cheapenPasswords(server.url());
  return server.url();
}

/** Each new connection derives a key from the password, which takes longer than most statements with 4,096 rounds. */
async function cheapenPasswords(url: string): Promise<void> {
  const { password } = new URL(url);
  await withClient(url, (client) =>
    client.query(`SET scram_iterations = 1; ALTER ROLE CURRENT_USER PASSWORD '${password}'`),
  );
}
