// PostgreSQL: the pool and its timeouts, hot statements, migrations, locks across replicas. Terms: stalled
// connection, standby, pooler. Invariants: every wait has a timeout; a database that cannot answer is a 503 and
// never a verdict (isDatabaseFailure); the service works on a primary only, with sessions of its own.

import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import pg from 'pg';
import type { DataSourceOptions } from 'typeorm';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from '../config/environment.js';
import { prepareConnection } from './connection-check.js';
import { ComparedClock } from './compared-clock.js';
import { isDatabaseFailure } from './database-failure.js';
import { DatabaseClock, Database } from './database.js';
import { KEEP_ALIVE } from './locks.js';
import { createMigrationOptions, migrate, retryUntilReachable, RETRY_DELAY_MS } from './migrate.js';
import { RequestPool } from './request-pool.js';

/**
 * Options of the pool that serves requests: every wait has a timeout, so that an unresponsive database becomes a 503.
 */
function createRequestOptions(environment: Environment): DataSourceOptions {
  const statementTimeoutMs = environment.databaseStatementTimeoutMs;
  const idleInTransactionMs = 2 * statementTimeoutMs;
  return {
    ...createMigrationOptions(environment.databaseUrl),
    applicationName: 'platform-auth',
    poolSize: environment.databasePoolSize,
    connectTimeoutMS: environment.databaseConnectTimeoutMs,
    driver: { ...pg, Pool: RequestPool },
    extra: {
      ...KEEP_ALIVE,
      onConnect: prepareConnection(statementTimeoutMs, idleInTransactionMs),
      statement_timeout: statementTimeoutMs,
      lock_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: idleInTransactionMs,
      // The client's own timeout, which also ends the wait for a server that enforces none.
      answerTimeoutMs: statementTimeoutMs + 500,
    },
  } as DataSourceOptions;
}

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Environment, StartWatch],
      useFactory: async (environment: Environment, watch: StartWatch) => {
        // TypeORM's own option takes no lock, `migrate` does. The primary process has migrated for its workers.
        if (!environment.isWorker) await retryUntilReachable(watch, () => migrate(environment.databaseUrl, watch));
        return {
          ...createRequestOptions(environment),
          autoLoadEntities: true,
          retryAttempts: environment.startTimeoutSeconds,
          retryDelay: RETRY_DELAY_MS,
          toRetry: isDatabaseFailure,
          verboseRetryLog: false,
        };
      },
    }),
  ],
  providers: [Database, DatabaseClock, ComparedClock],
  exports: [Database, DatabaseClock, ComparedClock],
})
export class DatabaseModule {}
