import { claimPort } from '../../tools/claim-port.js';
import type { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import { isHealthy, ServerProcess } from '../../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from '../../tools/service.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { DOORS, makeCredentials, type Credentials } from './credentials.js';
import type { Gateway } from './gateways.js';
import { Echo, send } from './http.js';

/** What stands around a gateway. */
export interface World {
  readonly checks: Checks;
  readonly cleanup: Cleanup;
  readonly service: ServerProcess;
  readonly postgres: PostgresServer;
  /** Between the gateways and the service. */
  readonly network: TcpProxy;
  readonly upstream: Echo;
  readonly credentials: Credentials;
}

export async function makeWorld(checks: Checks, cleanup: Cleanup): Promise<World> {
  const postgres = await PostgresServer.start(cleanup, 'gateways');
  const secrets = makeSecrets();
  const service = new ServerProcess(await claimPort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    // Without a lease, each verdict is read from the database: an outage of it is one at once.
    variables: {
      ...productionVariables(postgres.url, secrets),
      BCRYPT_COST: '4',
      LOG_LEVEL: 'warn',
      REVOCATION_LEASE_MS: '0',
    },
    isReady: isHealthy,
    onLine: () => undefined,
  });
  await service.start();
  const network = await TcpProxy.before(service.url);
  cleanup.defer(() => network.close());
  const credentials = await makeCredentials(service.url, secrets.ADMIN_API_KEY);
  return { checks, cleanup, service, postgres, network, upstream: await Echo.start(cleanup), credentials };
}

export async function expectRecovery({ port }: Gateway, { credentials }: World): Promise<void> {
  await eventually('valid credentials pass again', async () => {
    const answers = await Promise.all(
      DOORS.map((door) => send(port, { path: `/${door}/x`, headers: credentials[door].good })),
    );
    return answers.every(({ status }) => status === 200);
  });
}
