import type { Variables } from '../src/foundation/config/environment.js';
import { claimPort } from './claim-port.js';
import type { Cleanup } from './cleanup.js';
import { isHealthy, ServerProcess } from './server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from './service.js';

interface BuiltServiceOptions {
  readonly cleanup: Cleanup;
  readonly databaseUrl: string;
  readonly secrets?: ReturnType<typeof makeSecrets>;
  readonly variables?: Variables;
}

/** @returns the built service with cheap hashes, on a free port and not started; it is ready once it can use its database */
export async function makeBuiltService({
  cleanup,
  databaseUrl,
  secrets = makeSecrets(),
  variables,
}: BuiltServiceOptions): Promise<ServerProcess> {
  return new ServerProcess(await claimPort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    flags: SERVICE_FLAGS,
    variables: { ...productionVariables(databaseUrl, secrets), BCRYPT_COST: '4', LOG_LEVEL: 'warn', ...variables },
    isReady: isHealthy,
    // A listener, even an empty one, makes the process keep its last lines for the error of a failed start.
    onLine: () => undefined,
  });
}
