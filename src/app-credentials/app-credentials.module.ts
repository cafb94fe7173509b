import { Module } from '@nestjs/common';
import { getRepositoryToken, TypeOrmModule } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { Clock } from '../common/clock.js';
import { KeyStore } from '../credentials/key-store.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { AppCredential } from './app-credential.entity.js';
import { APP_KEYS, AppCredentialsService, type AppIdentity } from './app-credentials.service.js';
import { AppStrategy } from './app.strategy.js';
import { ValidateAppController } from './validate-app.controller.js';

@Module({
  imports: [TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [
    {
      provide: APP_KEYS,
      inject: [getRepositoryToken(AppCredential), Database, Clock, Log],
      useFactory: (repository: Repository<AppCredential>, database: Database, clock: Clock, log: Log) =>
        new KeyStore<AppCredential, AppIdentity>(
          { name: 'app_credentials', identityColumns: ['caller', 'target'], keyPrefix: 'pa_app_' },
          repository,
          database,
          clock,
          log,
        ),
    },
    AppCredentialsService,
    AppStrategy,
  ],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
