import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { Environment } from '../config/environment.js';
import { isDatabaseFailure } from './database-failure.js';
import { Database } from './database.js';
import { migrate } from './migrate.js';
import { requestOptions } from './database-options.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Environment],
      useFactory: (environment: Environment) => ({
        ...requestOptions(environment),
        autoLoadEntities: true,
        retryAttempts: 5,
        retryDelay: 1_000,
        // A database that is not up yet is waited for; a migration that fails is not tried again.
        toRetry: isDatabaseFailure,
        verboseRetryLog: false,
      }),
      dataSourceFactory: async (options) => {
        if (!options) throw new Error('TypeORM gave no options');
        await migrate((options as { url: string }).url);
        return new DataSource(options).initialize();
      },
    }),
  ],
  providers: [Database],
  exports: [Database],
})
export class DatabaseModule {}
