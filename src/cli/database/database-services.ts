// The service's own modules, for commands that work on the database, so that the same rules hold while the service is
// stopped. Commands import this file when they run, because loading TypeORM takes a second. The application context
// logs nothing: standard output belongs to the command.
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { AppCredentialsModule } from '../../domain/app-credentials/app-credentials.module.js';
import { AppCredentialsService } from '../../domain/app-credentials/app-credentials.service.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { SubscriptionsService } from '../../domain/events/subscriptions.service.js';
import { Clock } from '../../foundation/common/clock.js';
import { StartWatch } from '../../foundation/common/start-watch.js';
import { ConfigModule } from '../../foundation/config/config.module.js';
import {
  type Environment,
  parseEnvironment,
  readSecretFiles,
  type Variables,
} from '../../foundation/config/environment.js';
import { generateSecret } from '../../foundation/crypto/secret.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import { DatabaseModule } from '../../foundation/database/database.module.js';
import { MayNotMigrateError, migrate } from '../../foundation/database/migrate.js';
import { SigningKeyOperationError, SigningKeyOperations } from '../../domain/signing-keys/signing-key-rotation.js';
import { SigningKey } from '../../domain/signing-keys/signing-key.entity.js';
import { AccountTransfer } from '../../domain/users/account-transfer.js';
import { CommandFailedError, say } from '../terminal.js';
import { KeysModule } from '../../domain/keys/keys.module.js';
import { AuditModule } from '../../domain/audit/audit.module.js';
import { RevocationModule } from '../../domain/revocation/revocation.module.js';
import { LoggingModule } from '../../foundation/logging/logging.module.js';
import { AccessModule } from '../../foundation/access/access.module.js';
import { MetricsRegistryModule } from '../../foundation/metrics/metrics-registry.module.js';

export interface Services {
  readonly credentials: AppCredentialsService;
  readonly subscriptions: SubscriptionsService;
  readonly signingKeys: SigningKeyOperations;
  readonly accounts: AccountTransfer;
  readonly audit: AuditLog;
  readonly dataSource: DataSource;
  readonly databaseClock: DatabaseClock;
}

@Module({
  imports: [
    LoggingModule,
    MetricsRegistryModule,
    DatabaseModule,
    AccessModule,
    AuditModule,
    KeysModule,
    RevocationModule,
    AppCredentialsModule,
    TypeOrmModule.forFeature([SigningKey]),
  ],
  providers: [SigningKeyOperations, AccountTransfer, SubscriptionsService],
})
class CommandModule {}

/**
 * @param variables DATABASE_URL, and any variable that differs from its default
 * @throws {CommandFailedError} when the state of the signing keys does not allow the action now
 */
export async function withServices<Result>(
  variables: Variables,
  work: (services: Services) => Promise<Result>,
  clock = new Clock(),
): Promise<Result> {
  const config = ConfigModule.forRoot(createCommandEnvironment(variables), new StartWatch(), clock);
  const module = { module: CommandModule, imports: [config] };
  const context = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
  try {
    return await work({
      credentials: context.get(AppCredentialsService, { strict: false }),
      subscriptions: context.get(SubscriptionsService),
      signingKeys: context.get(SigningKeyOperations),
      accounts: context.get(AccountTransfer),
      audit: context.get(AuditLog, { strict: false }),
      dataSource: context.get(DataSource, { strict: false }),
      databaseClock: context.get(DatabaseClock, { strict: false }),
    });
  } catch (error) {
    throw error instanceof SigningKeyOperationError ? new CommandFailedError(error.message, 'not_possible_now') : error;
  } finally {
    await context.close();
  }
}

function createCommandEnvironment(variables: Variables): Environment {
  return {
    // Any key is valid, because nothing is signed or decrypted here.
    ...parseEnvironment({
      ...readSecretFiles(variables, ['DATABASE_URL']),
      SECRET_KEY: generateSecret(),
      LOG_LEVEL: 'silent',
    }),
    loggingServiceUrl: undefined,
    // As in a worker: `migrate` brings the schema up to date, and without a database the command fails at once.
    isWorker: true,
    startTimeoutSeconds: 0,
    // No feed is read and no key is cached, because nothing is verified here. A revocation still waits for the leases
    // that replicas announced.
    revocationLeaseMs: 0,
    maxCachedKeys: 1,
  };
}

/**
 * Applies missing migrations, says on standard error what it waits for, and gives up when it makes no progress.
 * @returns the names of the applied migrations
 */
export async function migrateWatched(databaseUrl: string): Promise<string[]> {
  const watch = new StartWatch(undefined, ({ step, seconds }) => say(`Waiting for ${step} (${seconds} s) …`));
  try {
    return await watch.limit(migrate(databaseUrl, watch));
  } catch (error) {
    throw error instanceof MayNotMigrateError ? new CommandFailedError(error.message, 'schema_outdated') : error;
  }
}
