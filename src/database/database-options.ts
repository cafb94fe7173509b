import pg from 'pg';
import type { DataSourceOptions } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { CreateSchema1763683200000 } from './migrations/1763683200000-create-schema.js';
import { AddKeyHistory1763683300000 } from './migrations/1763683300000-add-key-history.js';
import { CreateAuditEvents1763683400000 } from './migrations/1763683400000-create-audit-events.js';
import { CreateThrottleCounters1763683500000 } from './migrations/1763683500000-create-throttle-counters.js';
import { CreateCredentialChanges1763683600000 } from './migrations/1763683600000-create-credential-changes.js';
import { AddCallerRequestId1763683750000 } from './migrations/1763683750000-add-caller-request-id.js';
import { AddSessionLimit1763683800000 } from './migrations/1763683800000-add-session-limit.js';
import { RequestPool } from './request-pool.js';
import { CreateThrottleWindows1763683700000 } from './migrations/1763683700000-create-throttle-windows.js';
import { prepareConnection } from './connection-check.js';
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

const KEEP_ALIVE_DELAY_MS = 10_000;
const MAX_MIGRATION_SILENCE_MS = 30_000;
/** Well below the wait of a request, because requests for a table queue behind a migration that waits for it. */
const MIGRATION_LOCK_TIMEOUT_MS = 1_000;

/** Options of migrations: one connection, without a statement timeout. */
export function createMigrationOptions(databaseUrl: string): DataSourceOptions {
  return {
    type: 'postgres',
    url: databaseUrl,
    applicationName: 'platform-auth-migrations',
    migrations: [
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
    ],
    migrationsTableName: 'migrations',
    uuidExtension: 'pgcrypto',
    installExtensions: false,
    poolSize: 1,
    connectTimeoutMS: 5_000,
    extra: {
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
      // Ends the session of a migration whose process is silent, and releases its locks.
      idle_in_transaction_session_timeout: MAX_MIGRATION_SILENCE_MS,
      lock_timeout: MIGRATION_LOCK_TIMEOUT_MS,
    },
  };
}

/** Options of the pool that serves requests: every wait has a timeout, so that an unresponsive database becomes a 503. */
export function createRequestOptions(environment: Environment): DataSourceOptions {
  const statementTimeoutMs = environment.databaseStatementTimeoutMs;
  const idleInTransactionMs = 2 * statementTimeoutMs;
  return {
    ...createMigrationOptions(environment.databaseUrl),
    applicationName: 'platform-auth',
    poolSize: environment.databasePoolSize,
    connectTimeoutMS: environment.databaseConnectTimeoutMs,
    driver: { ...pg, Pool: RequestPool },
    extra: {
      onConnect: prepareConnection({ statementMs: statementTimeoutMs, idleInTransactionMs }),
      statement_timeout: statementTimeoutMs,
      lock_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: idleInTransactionMs,
      // The client's own timeout, for when the server cannot enforce its own.
      answerTimeoutMs: statementTimeoutMs + 500,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    },
  } as DataSourceOptions;
}
