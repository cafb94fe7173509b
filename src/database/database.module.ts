// PostgreSQL: the pool and its timeouts, hot statements, migrations, locks across replicas. Terms: stalled
// connection, standby, pooler. Invariants: every wait has a timeout; a database that cannot answer is a 503 and
// never a verdict (isDatabaseFailure); the service works on a primary only, with sessions of its own.

import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from '../config/environment.js';
import { isDatabaseFailure } from './database-failure.js';
import { DatabaseClock, Database } from './database.js';
import { migrate, retryUntilReachable, RETRY_DELAY_MS } from './migrate.js';
import { createRequestOptions } from './database-options.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Environment, StartWatch],
      useFactory: async (environment: Environment, watch: StartWatch) => {
        // `migrate` takes a lock, which TypeORM would not. The primary process has migrated for its workers.
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
  providers: [Database, DatabaseClock],
  exports: [Database, DatabaseClock],
})
export class DatabaseModule {}
