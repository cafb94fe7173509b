// App credentials for the commands that work on the database: the service's own modules in a Nest application context,
// so that the rules are the same and the service does not have to run. It listens to nothing, polls nothing, caches
// nothing, migrates nothing, and logs nothing: standard output belongs to the command.
import { Module, type DynamicModule } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { AppCredentialsModule } from '../../app-credentials/app-credentials.module.js';
import { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import type { Clock } from '../../common/clock.js';
import { StartWatch } from '../../common/start-watch.js';
import { ConfigModule } from '../../config/config.module.js';
import { parseEnvironment, type Environment, type Variables } from '../../config/environment.js';
import { generateSecret } from '../../crypto/secret.js';
import { DatabaseModule } from '../../database/database.module.js';
import { LoggingModule } from '../../logging/logging.module.js';

/** What a command needs to work on app credentials without a running service. */
export interface AppKeyContext {
  readonly credentials: AppCredentialsService;
  readonly dataSource: DataSource;
  readonly environment: Environment;
}

@Module({})
class AppKeysModule {
  static forRoot(environment: Environment, clock: Clock): DynamicModule {
    return {
      module: AppKeysModule,
      imports: [
        ConfigModule.forRoot(environment, new StartWatch(), clock),
        LoggingModule,
        DatabaseModule,
        AppCredentialsModule,
      ],
    };
  }
}

/**
 * Works on app credentials directly in the database.
 * @param variables DATABASE_URL, and any variable that differs from its default
 */
export async function withAppKeys<Result>(
  variables: Variables,
  clock: Clock,
  work: (context: AppKeyContext) => Promise<Result>,
): Promise<Result> {
  const environment = createCommandEnvironment(variables);
  const context = await NestFactory.createApplicationContext(AppKeysModule.forRoot(environment, clock), {
    logger: false,
    abortOnError: false,
  });
  try {
    const [credentials, dataSource] = [context.get(AppCredentialsService), context.get(DataSource)];
    return await work({ credentials, dataSource, environment });
  } finally {
    await context.close();
  }
}

function createCommandEnvironment(variables: Variables): Environment {
  return {
    // Nothing is signed here, so that any key is valid.
    ...parseEnvironment({ ...variables, SECRET_KEY: generateSecret(), LOG_LEVEL: 'silent' }),
    // As in a worker, the schema is migrated elsewhere; and a database that is away fails the command at once.
    isWorker: true,
    startTimeoutSeconds: 0,
    // Without a lease, no feed: nothing is verified here. What revoking waits for is that of the service.
    revocationLeaseMs: 0,
  };
}
