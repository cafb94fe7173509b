import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { DataSource, type MixedList } from 'typeorm';
import { withAdvisoryLock } from './advisory-lock.js';
import { isDatabaseFailure, isPermissionDenied } from './database-failure.js';
import { migrationOptions } from './database-options.js';
import { LOCKS } from './locks.js';

/** How long a start waits for a database that is not up yet. */
export const REACHING = { attempts: 5, delayMs: 1_000 };

/** The role of the service may use the tables, and not change the schema: another role has to migrate first. */
export class MayNotMigrateError extends Error {
  override readonly name = 'MayNotMigrateError';

  constructor(cause: unknown) {
    const how = 'Run as the owner of the tables: platform-auth migrate --grant-to ROLE';
    super(`The schema is not up to date, and the role in DATABASE_URL may not change it. ${how}`, { cause });
  }
}

/**
 * Brings the schema up to date. Replicas that start together wait for the first one, then find nothing to do. All is
 * one transaction: should the lock be lost meanwhile, of two that are at it the second one fails whole.
 * @returns the names of the migrations that were run
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  return withAdvisoryLock(databaseUrl, LOCKS.migrations, async () => {
    const dataSource = await new DataSource(migrationOptions(databaseUrl)).initialize();
    try {
      return (await dataSource.runMigrations({ transaction: 'all' })).map(({ name }) => name);
    } catch (error) {
      throw isPermissionDenied(error) ? new MayNotMigrateError(error) : error;
    } finally {
      await dataSource.destroy();
    }
  });
}

/**
 * The same, for a process that does nothing else with the database.
 * @param onFailure told of each attempt that is followed by another
 */
export async function migrateOnceReachable(databaseUrl: string, onFailure: () => void): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await migrate(databaseUrl);
      return;
    } catch (error) {
      if (attempt === REACHING.attempts || !isDatabaseFailure(error)) throw error;
      onFailure();
      await sleep(REACHING.delayMs);
    }
  }
}

/** How the schema compares with this program's migrations. Only reads. */
export interface SchemaState {
  /** Names of migrations that the database has not seen. */
  readonly pending: string[];
  /** Names that this program does not know: the database was migrated by a newer one. */
  readonly unknown: string[];
  /** There is nothing to read yet. */
  readonly isEmpty: boolean;
}

export async function schemaState(databaseUrl: string): Promise<SchemaState> {
  const known = namesOf(migrationOptions(databaseUrl).migrations);
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

function namesOf(migrations: MixedList<unknown> | undefined): string[] {
  return Object.values(migrations ?? []).map((migration) => (migration as { name: string }).name);
}
