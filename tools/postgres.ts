import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { EmbeddedPostgres } from '../src/embedded-postgres/embedded-postgres.js';
import type { Cleanup } from './cleanup.js';

export interface PostgresOptions {
  readonly cleanup: Cleanup;
  /** Part of the name of its temporary folder. */
  readonly purpose: string;
  readonly settings?: Readonly<Record<string, string>>;
}

/** Starts a separate PostgreSQL server in a temporary folder. The cleanup stops it and removes the folder. */
export function startPostgres({ cleanup, purpose, settings }: PostgresOptions): Promise<EmbeddedPostgres> {
  const parent = mkdtempSync(join(tmpdir(), `platform-auth-${purpose}-`));
  // When root starts it, the server runs as another user, who must be able to enter.
  chmodSync(parent, 0o755);
  cleanup.defer(() => rmSync(parent, { recursive: true, force: true }));
  const start = (): Promise<EmbeddedPostgres> =>
    EmbeddedPostgres.start({
      folder: join(parent, 'postgres'),
      makePassword: () => randomBytes(16).toString('hex'),
      ...(settings && { settings }),
    });
  return cleanup.acquire(start, (server) => server.remove());
}

/** Runs a task with one connection. If the server ends it, the next query fails instead of the process. */
export async function withClient<Result>(url: string, task: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await task(client);
  } finally {
    await client.end();
  }
}
