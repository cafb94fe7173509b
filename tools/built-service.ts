import type { Variables } from '../src/foundation/config/environment.js';
import { claimPort } from './claim-port.js';
import type { Cleanup } from './cleanup.js';
import { isHealthy, ServerProcess } from './server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from './service.js';

export interface BuiltServiceOptions {
  readonly cleanup: Cleanup;
  readonly databaseUrl: string;
  readonly secrets?: ReturnType<typeof makeSecrets>;
  readonly variables?: Variables;
}

/** The built service on a free port, with cheap hashes. It is ready when it can use its database. @returns it before its start */
export async function makeBuiltService({
  cleanup,
  databaseUrl,
  secrets = makeSecrets(),
  variables,
}: BuiltServiceOptions): Promise<ServerProcess> {
  return new ServerProcess(await claimPort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    variables: { ...productionVariables(databaseUrl, secrets), BCRYPT_COST: '4', LOG_LEVEL: 'warn', ...variables },
    isReady: isHealthy,
    // Lines are kept for the error of a failed start.
    onLine: () => undefined,
  });
}
