import type { DataSourceOptions } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { CreateSchema1763683200000 } from './migrations/1763683200000-create-schema.js';
import { AddKeyHistory1763683300000 } from './migrations/1763683300000-add-key-history.js';
import { CreateAuditEvents1763683400000 } from './migrations/1763683400000-create-audit-events.js';
import { CreateThrottleCounters1763683500000 } from './migrations/1763683500000-create-throttle-counters.js';
import { CreateCredentialChanges1763683600000 } from './migrations/1763683600000-create-credential-changes.js';
import { SealAuditEvents1763684000000 } from './migrations/1763684000000-seal-audit-events.js';
import { AddAuditDefiners1763684050000 } from './migrations/1763684050000-add-audit-definers.js';
import { PromptClient } from './prompt-client.js';

const KEEP_ALIVE_DELAY_MS = 10_000;

/** What the migrations need: no statement limit, one connection. Entities register themselves with their modules. */
export function migrationOptions(databaseUrl: string): DataSourceOptions {
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
      SealAuditEvents1763684000000,
      AddAuditDefiners1763684050000,
    ],
    migrationsTableName: 'migrations',
    uuidExtension: 'pgcrypto',
    installExtensions: false,
    poolSize: 1,
    connectTimeoutMS: 5_000,
  };
}

/** What requests run on: every wait has an end, so that a database that does not answer becomes a 503. */
export function requestOptions(environment: Environment): DataSourceOptions {
  const statementTimeoutMs = environment.databaseStatementTimeoutMs;
  return {
    ...migrationOptions(environment.databaseUrl),
    applicationName: 'platform-auth',
    poolSize: environment.databasePoolSize,
    connectTimeoutMS: environment.databaseConnectTimeoutMs,
    extra: {
      Client: PromptClient,
      statement_timeout: statementTimeoutMs,
      lock_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: 2 * statementTimeoutMs,
      // The client's own limit, for when the server cannot keep its.
      query_timeout: statementTimeoutMs + 500,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    },
  } as DataSourceOptions;
}
