import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from '../config/environment.js';
import { isDatabaseFailure } from './database-failure.js';
import { DatabaseClock } from './database-clock.js';
import { Database } from './database.js';
import { HealthProbe } from './health-probe.js';
import { migrate, onceReachable, RETRY_DELAY_MS } from './migrate.js';
import { requestOptions } from './database-options.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Environment, StartWatch],
      useFactory: async (environment: Environment, watch: StartWatch) => {
        // Under a lock, which TypeORM would not take. The primary process has migrated for its workers.
        if (!environment.isWorker) await onceReachable(watch, () => migrate(environment.databaseUrl, watch));
        return {
          ...requestOptions(environment),
          autoLoadEntities: true,
          retryAttempts: environment.startTimeoutSeconds,
          retryDelay: RETRY_DELAY_MS,
          toRetry: isDatabaseFailure,
          verboseRetryLog: false,
        };
      },
    }),
  ],
  providers: [Database, DatabaseClock, HealthProbe],
  exports: [Database, DatabaseClock, HealthProbe],
})
export class DatabaseModule {}
