// Services for the commands that work on the database: the service's own modules in a Nest application context, so that
// the rules are the same and the service does not have to run. It listens to nothing, polls nothing, caches nothing,
// migrates nothing, and logs nothing: standard output belongs to the command.
import { Module, type DynamicModule, type INestApplicationContext, type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Clock } from '../../common/clock.js';
import { StartWatch } from '../../common/start-watch.js';
import { ConfigModule } from '../../config/config.module.js';
import { parseEnvironment, type Environment, type Variables, readSecretFiles } from '../../config/environment.js';
import { generateSecret } from '../../crypto/secret.js';
import { DatabaseModule } from '../../database/database.module.js';
import { LoggingModule } from '../../logging/log.js';

type Rooms = Pick<ModuleMetadata, 'imports' | 'providers'>;

@Module({})
class CommandModule {
  static forRoot(environment: Environment, clock: Clock, { imports = [], providers = [] }: Rooms): DynamicModule {
    const config = ConfigModule.forRoot(environment, new StartWatch(), clock);
    return { module: CommandModule, imports: [config, LoggingModule, DatabaseModule, ...imports], providers };
  }
}

/**
 * Works with services directly on the database.
 * @param variables DATABASE_URL, and any variable that differs from its default
 * @param rooms the modules and providers that the command needs
 */
export async function withServices<Result>(
  variables: Variables,
  rooms: Rooms,
  work: (context: INestApplicationContext) => Promise<Result>,
  clock = new Clock(),
): Promise<Result> {
  const module = CommandModule.forRoot(createCommandEnvironment(variables), clock, rooms);
  const context = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
  try {
    return await work(context);
  } finally {
    await context.close();
  }
}

function createCommandEnvironment(variables: Variables): Environment {
  return {
    // Nothing is signed or decrypted here, so that any key is valid.
    ...parseEnvironment({
      ...readSecretFiles(variables, ['DATABASE_URL']),
      SECRET_KEY: generateSecret(),
      LOG_LEVEL: 'silent',
    }),
    loggingServiceUrl: undefined,
    // As in a worker, the schema is migrated elsewhere; and a database that is away fails the command at once.
    isWorker: true,
    startTimeoutSeconds: 0,
    // Nothing is verified here, so no feed is needed. A revocation waits for the leases that the replicas announced.
    revocationLeaseMs: 0,
  };
}
