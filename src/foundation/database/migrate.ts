import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { StartWatch } from '../common/start-watch.js';
import { KEEP_ALIVE, LOCKS, withAdvisoryLock } from './locks.js';
import { refuseUnusable, withClient } from './connection-check.js';
import { isDatabaseFailure, isLockTimeout, isPermissionDenied } from './database-failure.js';
import { CreateAppCredentials1795651200005 } from './migrations/app-credentials.js';
import { CreateAuditLog1795651200009 } from './migrations/audit-log.js';
import { CreateAuditSeals1795651200010 } from './migrations/audit-seals.js';
import { CreateChangeFeed1795651200014 } from './migrations/change-feed.js';
import { CreateCountedRefusals1795651200011 } from './migrations/counted-refusals.js';
import { CreateEvents1795651200018 } from './migrations/events.js';
import { CreateHouseholds1795651200016 } from './migrations/households.js';
import { CreateHourlyCounts1795651200017 } from './migrations/hourly-counts.js';
import { CreateMail1795651200003 } from './migrations/mail.js';
import { CreateMaintenance1795651200013 } from './migrations/maintenance.js';
import { CreateNodes1795651200006 } from './migrations/nodes.js';
import { CreateOperators1795651200007 } from './migrations/operators.js';
import { IndexSearches1795651200015 } from './migrations/searches.js';
import { CreateSecondFactors1795651200004 } from './migrations/second-factors.js';
import { CreateSessions1795651200002 } from './migrations/sessions.js';
import { CreateSigningKeys1795651200008 } from './migrations/signing-keys.js';
import { CreateThrottles1795651200012 } from './migrations/throttles.js';
import { CreateUsers1795651200001 } from './migrations/users.js';

/** TypeORM runs them in the order of the timestamps at the end of their names. */
export const MIGRATIONS = [
  CreateUsers1795651200001,
  CreateSessions1795651200002,
  CreateMail1795651200003,
  CreateSecondFactors1795651200004,
  CreateAppCredentials1795651200005,
  CreateNodes1795651200006,
  CreateOperators1795651200007,
  CreateSigningKeys1795651200008,
  CreateAuditLog1795651200009,
  CreateAuditSeals1795651200010,
  CreateCountedRefusals1795651200011,
  CreateThrottles1795651200012,
  CreateMaintenance1795651200013,
  CreateChangeFeed1795651200014,
  IndexSearches1795651200015,
  CreateHouseholds1795651200016,
  CreateHourlyCounts1795651200017,
  CreateEvents1795651200018,
];
/** The timestamp of the first migration of version 0.1.0. */
const FIRST_TIMESTAMP = 1_795_651_200_001;

export const RETRY_DELAY_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_MIGRATION_SILENCE_MS = 30_000;
/** Much shorter than a request waits, because requests for a table queue behind a migration that waits for its lock. */
const MIGRATION_LOCK_TIMEOUT_MS = 1_000;
/** Excludes waiting for a lock, because an open transaction of another client may hold it for hours. */
const IS_WORKING = `SELECT 1 FROM pg_stat_activity
  WHERE pid = $1 AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`;

/** One connection, without a statement timeout. */
export function createMigrationOptions(databaseUrl: string): DataSourceOptions {
  return {
    type: 'postgres',
    url: databaseUrl,
    applicationName: 'platform-auth-migrations',
    migrations: MIGRATIONS,
    migrationsTableName: 'migrations',
    uuidExtension: 'pgcrypto',
    installExtensions: false,
    poolSize: 1,
    connectTimeoutMS: CONNECT_TIMEOUT_MS,
    extra: {
      ...KEEP_ALIVE,
      // Ends the session of a migration whose process stopped, and so releases its locks.
      idle_in_transaction_session_timeout: MAX_MIGRATION_SILENCE_MS,
      lock_timeout: MIGRATION_LOCK_TIMEOUT_MS,
    },
  };
}

/** The service's own role may not change the schema, so the owner of the tables has to migrate first. */
export class MayNotMigrateError extends Error {
  override readonly name = 'MayNotMigrateError';

  constructor(cause: unknown) {
    const how = 'Run, with DATABASE_URL of the owner of the tables: platform-auth migrate --grant-to ROLE';
    super(`The schema is not up to date, and the role in DATABASE_URL may not change it. ${how}`, { cause });
  }
}

/**
 * Migrates the schema to this version; idempotent, and replicas that start together wait for the first one. All
 * migrations run in one transaction, so that if the lock is lost and two processes migrate, the second one fails as a
 * whole.
 * @returns the names of the migrations that ran
 */
export async function migrate(databaseUrl: string, watch = new StartWatch()): Promise<string[]> {
  await watch.during('an answer of the database', () => refuseUnusable(databaseUrl));
  // Retries after each short wait for a lock, so that requests for the table proceed between two attempts instead of
  // queueing behind the migration.
  const run = (): Promise<string[]> =>
    watch.during('the migrations of the schema', () =>
      retryWhile(isLockTimeout, watch, () => runMigrations(databaseUrl, watch)),
    );
  return watch.during('the lock of the migrations, which another process holds or held', () =>
    withAdvisoryLock(databaseUrl, LOCKS.migrations, run),
  );
}

async function runMigrations(databaseUrl: string, watch: StartWatch): Promise<string[]> {
  const dataSource = new DataSource(createMigrationOptions(databaseUrl));
  let progress: NodeJS.Timeout | undefined;
  try {
    if ((await readSchemaState(databaseUrl)).pending.length === 0) return [];
    await dataSource.initialize();
    const [backend] = await dataSource.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
    const poll = (): void => void extendWhileWorking(databaseUrl, backend?.pid, watch).catch(() => undefined);
    progress = setInterval(poll, watch.intervalMs);
    return (await dataSource.runMigrations({ transaction: 'all' })).map(({ name }) => name);
  } catch (error) {
    throw isPermissionDenied(error) ? new MayNotMigrateError(error) : error;
  } finally {
    clearInterval(progress);
    if (dataSource.isInitialized) await dataSource.destroy();
  }
}

/** A long migration counts as progress while PostgreSQL reports, on another connection, that it is working. */
async function extendWhileWorking(databaseUrl: string, pid: number | undefined, watch: StartWatch): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    if ((await client.query(IS_WORKING, [pid])).rows.length > 0) watch.extend();
  });
}

/** Retries while the database is unreachable or a standby. A failed migration is not retried. */
export async function retryUntilReachable<Result>(watch: StartWatch, work: () => Promise<Result>): Promise<Result> {
  return watch.during('a database that can be used', () => retryWhile(isDatabaseFailure, watch, work));
}

/** Retries without a limit, because the watch ends the start at its own. */
async function retryWhile<Result>(
  mayRetry: (error: unknown) => boolean,
  watch: StartWatch,
  work: () => Promise<Result>,
): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!mayRetry(error)) throw error;
      watch.reportFailure((error as Error).message);
      await sleep(RETRY_DELAY_MS);
    }
  }
}

export interface SchemaState {
  readonly pending: string[];
  /** Migrations that this version does not know, because a newer version migrated the database. */
  readonly unknown: string[];
  /** Whether the database has no tables of this service yet. */
  readonly isEmpty: boolean;
}

/** The tables belong to a commit before 0.1.0, and no migration leads from there to here. */
class UnreleasedSchemaError extends Error {
  override readonly name = 'UnreleasedSchemaError';
  readonly code = 'UNRELEASED_SCHEMA';

  constructor() {
    super('The database was made before 0.1.0: export its users with the commit that made it, and import them here.');
  }
}

/** @throws {UnreleasedSchemaError} */
export async function readSchemaState(databaseUrl: string): Promise<SchemaState> {
  const known = MIGRATIONS.map(({ name }) => name);
  return withClient(databaseUrl, async (client) => {
    const tables = `SELECT to_regclass('migrations') AS migrations, to_regclass('app_credentials') AS data`;
    const [found] = (await client.query<Record<'migrations' | 'data', string | null>>(tables)).rows;
    const read = 'SELECT name, timestamp < $1 AS is_unreleased FROM migrations';
    const rows = found?.migrations
      ? (await client.query<{ name: string; is_unreleased: boolean }>(read, [FIRST_TIMESTAMP])).rows
      : [];
    if (rows.some(({ is_unreleased }) => is_unreleased)) throw new UnreleasedSchemaError();
    const run = rows.map(({ name }) => name);
    return {
      pending: known.filter((name) => !run.includes(name)),
      unknown: run.filter((name) => !known.includes(name)),
      isEmpty: !found?.data,
    };
  });
}
