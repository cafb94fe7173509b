import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { EmbeddedPostgres } from '../src/foundation/embedded-postgres/embedded-postgres.js';
import { claimPort } from './claim-port.js';
import type { Cleanup } from './cleanup.js';

interface PostgresOptions {
  readonly cleanup: Cleanup;
  /** Becomes a part of the folder's name. */
  readonly purpose: string;
  readonly settings?: Readonly<Record<string, string>>;
}

/** Settings for a server that may lose its data in a crash. */
export const UNSAFE = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' };

/** Starts a separate PostgreSQL server in a temporary folder. The cleanup stops it and removes the folder. */
export function startPostgres({ cleanup, purpose, settings }: PostgresOptions): Promise<EmbeddedPostgres> {
  const folder = makeServerFolder(cleanup, purpose);
  const start = async (): Promise<EmbeddedPostgres> =>
    EmbeddedPostgres.start({ folder, makePassword, port: await claimPort(), ...(settings && { settings }) });
  return cleanup.acquire(start, (server) => server.remove());
}

/** @returns the path of a folder for a server, in a temporary folder that the cleanup removes */
export function makeServerFolder(cleanup: Cleanup, purpose: string): string {
  return join(makeTemporaryFolder(cleanup, purpose), 'postgres');
}

/** Other users may enter the folder, because root may start a program as another user. */
export function makeTemporaryFolder(cleanup: Cleanup, purpose: string): string {
  const folder = mkdtempSync(join(tmpdir(), `platform-auth-${purpose}-`));
  chmodSync(folder, 0o755);
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function makePassword(): string {
  return randomBytes(16).toString('hex');
}

/** Runs a task with one connection. If the server ends the connection, the next query fails instead of the process. */
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
