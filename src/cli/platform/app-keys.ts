import { AppCredentialsModule } from '../../app-credentials/app-credentials.module.js';
import { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import type { Clock } from '../../common/clock.js';
import { Environment, type Variables } from '../../config/environment.js';
import { DatabaseClock } from '../../database/database.js';
import { withServices } from './command-context.js';

/** What a command needs to work on app credentials without a running service. */
export interface AppKeyContext {
  readonly credentials: AppCredentialsService;
  readonly databaseClock: DatabaseClock;
  readonly environment: Environment;
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
  return withServices(
    variables,
    { imports: [AppCredentialsModule] },
    (context) =>
      work({
        credentials: context.get(AppCredentialsService, { strict: false }),
        databaseClock: context.get(DatabaseClock, { strict: false }),
        environment: context.get(Environment, { strict: false }),
      }),
    clock,
  );
}
