import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { StartWatch } from '../common/start-watch.js';
import { KEEP_ALIVE, LOCKS, withAdvisoryLock } from './locks.js';
import { refuseUnusable, withClient } from './connection-check.js';
import { isDatabaseFailure, isLockTimeout, isPermissionDenied } from './database-failure.js';
import { CreateSchema1763683200000 } from './migrations/1763683200000-create-schema.js';
import { AddKeyHistory1763683300000 } from './migrations/1763683300000-add-key-history.js';
import { CreateAuditEvents1763683400000 } from './migrations/1763683400000-create-audit-events.js';
import { CreateThrottleCounters1763683500000 } from './migrations/1763683500000-create-throttle-counters.js';
import { CreateCredentialChanges1763683600000 } from './migrations/1763683600000-create-credential-changes.js';
import { CreateThrottleWindows1763683700000 } from './migrations/1763683700000-create-throttle-windows.js';
import { AddCallerRequestId1763683750000 } from './migrations/1763683750000-add-caller-request-id.js';
import { AddSessionLimit1763683800000 } from './migrations/1763683800000-add-session-limit.js';
import { WidenCredentialChanges1763683900000 } from './migrations/1763683900000-widen-credential-changes.js';
import { SealAuditEvents1763684000000 } from './migrations/1763684000000-seal-audit-events.js';
import { AddAuditDefiners1763684050000 } from './migrations/1763684050000-add-audit-definers.js';
import { RecordSessionChanges1763684200000 } from './migrations/1763684200000-record-session-changes.js';
import { CreateIdempotencyKeys1763684250000 } from './migrations/1763684250000-create-idempotency-keys.js';
import { CreateSigningKeys1763684300000 } from './migrations/1763684300000-create-signing-keys.js';
import { OwnAccounts1763771500000 } from './migrations/1763771500000-own-accounts.js';
import { CreateOperators1763771600000 } from './migrations/1763771600000-create-operators.js';
import { CreateLinksByEmail1763771700000 } from './migrations/1763771700000-create-links-by-email.js';
import { AddSecondFactors1763771800000 } from './migrations/1763771800000-add-second-factors.js';
import { KeepLinksAtRehashes1763771900000 } from './migrations/1763771900000-keep-links-at-rehashes.js';
import { IgnoreRestoredPurges1763772000000 } from './migrations/1763772000000-ignore-restored-purges.js';
import { ProtectAuditLogInReplicaMode1763858400000 } from './migrations/1763858400000-protect-audit-log-in-replica-mode.js';
import { MarkReportedUses1763858500000 } from './migrations/1763858500000-mark-reported-uses.js';
import { AddMailNetworks1763858600000 } from './migrations/1763858600000-add-mail-networks.js';
import { IndexLists1763858700000 } from './migrations/1763858700000-index-lists.js';
import { CreateJobRuns1763945000000 } from './migrations/1763945000000-create-job-runs.js';
import { RestrictKeys1763945100000 } from './migrations/1763945100000-restrict-keys.js';
import { CreateConsoleSessions1763945400000 } from './migrations/1763945400000-create-console-sessions.js';
import { CreateNodeEnrolments1763946000000 } from './migrations/1763946000000-create-node-enrolments.js';
import { KeepFirstProofs1763947000000 } from './migrations/1763947000000-keep-first-proofs.js';

const MIGRATIONS = [
  CreateSchema1763683200000,
  AddKeyHistory1763683300000,
  CreateAuditEvents1763683400000,
  CreateThrottleCounters1763683500000,
  CreateCredentialChanges1763683600000,
  CreateThrottleWindows1763683700000,
  AddCallerRequestId1763683750000,
  AddSessionLimit1763683800000,
  WidenCredentialChanges1763683900000,
  SealAuditEvents1763684000000,
  AddAuditDefiners1763684050000,
  RecordSessionChanges1763684200000,
  CreateIdempotencyKeys1763684250000,
  CreateSigningKeys1763684300000,
  OwnAccounts1763771500000,
  CreateOperators1763771600000,
  CreateLinksByEmail1763771700000,
  AddSecondFactors1763771800000,
  KeepLinksAtRehashes1763771900000,
  IgnoreRestoredPurges1763772000000,
  ProtectAuditLogInReplicaMode1763858400000,
  MarkReportedUses1763858500000,
  AddMailNetworks1763858600000,
  IndexLists1763858700000,
  CreateJobRuns1763945000000,
  RestrictKeys1763945100000,
  CreateConsoleSessions1763945400000,
  CreateNodeEnrolments1763946000000,
  KeepFirstProofs1763947000000,
];

export const RETRY_DELAY_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_MIGRATION_SILENCE_MS = 30_000;
/** Well below the wait of a request, because requests for a table queue behind a migration that waits for it. */
const MIGRATION_LOCK_TIMEOUT_MS = 1_000;
/** Waiting for a table lock is not progress: an open transaction of another client may hold it for hours. */
const IS_WORKING = `SELECT 1 FROM pg_stat_activity
  WHERE pid = $1 AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`;

/** Options of migrations: one connection, without a statement timeout. */
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
      // Ends the session of a migration whose process is silent, and releases its locks.
      idle_in_transaction_session_timeout: MAX_MIGRATION_SILENCE_MS,
      lock_timeout: MIGRATION_LOCK_TIMEOUT_MS,
    },
  };
}

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
 */
export async function migrate(databaseUrl: string, watch = new StartWatch()): Promise<string[]> {
  await watch.during('an answer of the database', () => refuseUnusable(databaseUrl));
  // Waits in short turns for a table that another transaction uses, so that requests for the table pass between two
  // attempts instead of queueing behind the migration.
  const run = (): Promise<string[]> =>
    watch.during('the migrations of the schema', () =>
      retryWhile(isLockTimeout, watch, () => runMigrations(databaseUrl, watch)),
    );
  return watch.during('the lock of the migrations, which another process holds or held', () =>
    withAdvisoryLock(databaseUrl, LOCKS.migrations, run),
  );
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

/** Retries while the database is unreachable or a standby, and not after a failed migration. */
export async function retryUntilReachable<Result>(watch: StartWatch, work: () => Promise<Result>): Promise<Result> {
  return watch.during('a database that can be used', () => retryWhile(isDatabaseFailure, watch, work));
}

/** The watch limits the attempts. */
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
  /** Names of migrations that have not run in the database. */
  readonly pending: string[];
  /** Names that this program does not know: a newer version migrated the database. */
  readonly unknown: string[];
  /** The database has no tables of this service yet. */
  readonly isEmpty: boolean;
}

export async function readSchemaState(databaseUrl: string): Promise<SchemaState> {
  const known = MIGRATIONS.map(({ name }) => name);
  return withClient(databaseUrl, async (client) => {
    const tables = `SELECT to_regclass('migrations') AS migrations, to_regclass('app_credentials') AS data`;
    const [found] = (await client.query<Record<'migrations' | 'data', string | null>>(tables)).rows;
    const read = 'SELECT name FROM migrations';
    const run = found?.migrations ? (await client.query<{ name: string }>(read)).rows.map(({ name }) => name) : [];
    return {
      pending: known.filter((name) => !run.includes(name)),
      unknown: run.filter((name) => !known.includes(name)),
      isEmpty: !found?.data,
    };
  });
}
