import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { Environment } from '../config/environment.js';
import { isDatabaseFailure } from './database-failure.js';
import { DatabaseClock } from './database-clock.js';
import { Database } from './database.js';
import { migrate, REACHING } from './migrate.js';
import { requestOptions } from './database-options.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Environment],
      useFactory: (environment: Environment) => ({
        ...requestOptions(environment),
        autoLoadEntities: true,
        migrationsRun: !environment.isWorker,
        retryAttempts: REACHING.attempts,
        retryDelay: REACHING.delayMs,
        // A database that is not up yet is waited for; a migration that fails is not tried again.
        toRetry: isDatabaseFailure,
        verboseRetryLog: false,
      }),
      dataSourceFactory: async (options) => {
        if (!options) throw new Error('TypeORM gave no options');
        // Under a lock, which TypeORM would not take.
        if (options.migrationsRun) await migrate((options as { url: string }).url);
        return new DataSource({ ...options, migrationsRun: false }).initialize();
      },
    }),
  ],
  providers: [Database, DatabaseClock],
  exports: [Database, DatabaseClock],
})
export class DatabaseModule {}
