import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
// Jest loads this file itself, before any TypeScript is transformed: hence the compiled class.
import { EmbeddedPostgres } from '../../dist/src/embedded-postgres/embedded-postgres.js';

/** One PostgreSQL for the whole run: TEST_DATABASE_URL (a superuser's), or an embedded one that forgets everything. */
export default async function setup() {
  if (process.env.TEST_DATABASE_URL) return;
  const server = await EmbeddedPostgres.start({
    folder: mkdtempSync(join(tmpdir(), 'platform-auth-test-')),
    makePassword: () => randomBytes(16).toString('hex'),
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' },
  });
  process.env.TEST_DATABASE_URL = server.url();
  globalThis.embeddedPostgres = server;
}
