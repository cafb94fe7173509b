import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { DataSource, type MixedList } from 'typeorm';
import { StartWatch } from '../common/start-watch.js';
import { withAdvisoryLock, LOCKS } from './locks.js';
import { refuseUnusable, withClient } from './connection-check.js';
import { isDatabaseFailure, isLockTimeout, isPermissionDenied } from './database-failure.js';
import { createMigrationOptions } from './database-options.js';

export const RETRY_DELAY_MS = 1_000;
/** Waiting for a table lock is not progress: an open transaction of another client may hold it for hours. */
const IS_WORKING = `SELECT 1 FROM pg_stat_activity
  WHERE pid = $1 AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`;

/** The role of the service may use the tables but not change the schema, so another role has to migrate first. */
export class MayNotMigrateError extends Error {
  override readonly name = 'MayNotMigrateError';

  constructor(cause: unknown) {
    const how = 'Run as the owner of the tables: platform-auth migrate --grant-to ROLE';
    super(`The schema is not up to date, and the role in DATABASE_URL may not change it. ${how}`, { cause });
  }
}

/**
 * Migrates the schema to this version; idempotent. Replicas that start together wait for the first one. All migrations
 * run in one transaction: if the lock is lost and two processes migrate, the second one fails as a whole.
 * @returns the names of the migrations that ran
 * @throws {StandbyError}
 * @throws {SharedSessionsError}
 */
export async function migrate(databaseUrl: string, watch = new StartWatch()): Promise<string[]> {
  await watch.during('an answer of the database', () => refuseUnusable(databaseUrl));
  const run = (): Promise<string[]> =>
    watch.during('the migrations of the schema', () => runBetweenTransactions(databaseUrl, watch));
  return watch.during('the lock of the migrations, which another process holds or held', () =>
    withAdvisoryLock(databaseUrl, LOCKS.migrations, run),
  );
}

/**
 * Waits in short turns for a table that another transaction uses, so that requests for the table pass between two attempts
 * instead of queueing behind the migration. The watch limits the attempts.
 */
async function runBetweenTransactions(databaseUrl: string, watch: StartWatch): Promise<string[]> {
  for (;;) {
    try {
      return await runMigrations(databaseUrl, watch);
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      watch.reportFailure((error as Error).message);
      await sleep(RETRY_DELAY_MS);
    }
  }
}

async function runMigrations(databaseUrl: string, watch: StartWatch): Promise<string[]> {
  const dataSource = await new DataSource(createMigrationOptions(databaseUrl)).initialize();
  let progress: NodeJS.Timeout | undefined;
  try {
    const [backend] = await dataSource.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
    const poll = (): void => void extendWhileWorking(databaseUrl, backend?.pid, watch).catch(() => undefined);
    progress = setInterval(poll, watch.intervalMs);
    return (await dataSource.runMigrations({ transaction: 'all' })).map(({ name }) => name);
  } catch (error) {
    throw isPermissionDenied(error) ? new MayNotMigrateError(error) : error;
  } finally {
    clearInterval(progress);
    await dataSource.destroy();
  }
}

/** A long migration is not a hang while PostgreSQL reports, on another connection, that it is working. */
async function extendWhileWorking(databaseUrl: string, pid: number | undefined, watch: StartWatch): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    if ((await client.query(IS_WORKING, [pid])).rows.length > 0) watch.extend();
  });
}

/**
 * Retries until the database can be used; the watch sets the time limit. An unreachable database and a standby are
 * retried, a failed migration is not.
 */
export async function retryUntilReachable<Result>(watch: StartWatch, work: () => Promise<Result>): Promise<Result> {
  return watch.during('a database that can be used', async () => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isDatabaseFailure(error)) throw error;
        watch.reportFailure((error as Error).message);
        await sleep(RETRY_DELAY_MS);
      }
    }
  });
}

/** The difference between the schema and this program's migrations. */
export interface SchemaState {
  /** Names of migrations that have not run in the database. */
  readonly pending: string[];
  /** Names that this program does not know: a newer version migrated the database. */
  readonly unknown: string[];
  /** The database has no tables of this service yet. */
  readonly isEmpty: boolean;
}

export async function readSchemaState(databaseUrl: string): Promise<SchemaState> {
  const known = listNames(createMigrationOptions(databaseUrl).migrations);
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const tables = `SELECT to_regclass('migrations') AS migrations, to_regclass('app_credentials') AS data`;
    const [found] = (await client.query<Record<'migrations' | 'data', string | null>>(tables)).rows;
    const { rows } = found?.migrations
      ? await client.query<{ name: string }>('SELECT name FROM migrations')
      : { rows: [] };
    const run = rows.map(({ name }) => name);
    return {
      pending: known.filter((name) => !run.includes(name)),
      unknown: run.filter((name) => !known.includes(name)),
      isEmpty: !found?.data,
    };
  } finally {
    await client.end();
  }
}

function listNames(migrations: MixedList<unknown> | undefined): string[] {
  return Object.values(migrations ?? []).map((migration) => (migration as { name: string }).name);
}
