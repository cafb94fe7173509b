import { claimPort } from '../../tools/claim-port.js';
import { ApiClient, type TokenPair } from '../../tools/api-client.js';
import { makeBuiltService } from '../../tools/built-service.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { startPostgres, withClient, UNSAFE } from '../../tools/postgres.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { makeSecrets } from '../../tools/service.js';
import { serve } from '../support/serve.js';

const DATABASE = 'alerts';
const START_TIMEOUT_MS = 120_000;

export interface WatchedService {
  readonly url: string;
  readonly metricsUrl: string;
  readonly client: ApiClient;
  /** Runs a statement in the service's database. */
  readonly query: (sql: string) => Promise<void>;
  /** Ends every connection of the service, and refuses new ones. */
  readonly cutDatabase: () => Promise<void>;
}

/** The built service with metrics and log delivery, on a PostgreSQL of its own. */
export async function startWatchedService(cleanup: Cleanup, workers = 1): Promise<WatchedService> {
  const postgres = await startPostgres({ cleanup, purpose: 'alerts', settings: UNSAFE });
  const run = (database: string, sql: string): Promise<void> =>
    withClient(postgres.url(database), async (client) => {
      await client.query(sql);
    });
  await run('postgres', `CREATE DATABASE ${DATABASE}`);
  const metricsPort = await claimPort();
  const secrets = makeSecrets();
  const variables = {
    METRICS_PORT: String(metricsPort),
    LOGGING_SERVICE_URL: await startLogSink(cleanup),
    // Without the default of other tests, lines are delivered.
    LOG_LEVEL: undefined,
    // A superseded refresh token is a reused one at once.
    REFRESH_GRACE_SECONDS: '0',
    WORKERS: String(workers),
  };
  const databaseUrl = postgres.url(DATABASE);
  const { url } = await (await makeBuiltService({ cleanup, databaseUrl, secrets, variables })).start();
  const metricsUrl = `http://127.0.0.1:${metricsPort}/metrics`;
  await waitForMetrics(metricsUrl);
  return {
    url,
    metricsUrl,
    client: new ApiClient(url, secrets.ADMIN_API_KEY),
    query: (sql) => run(DATABASE, sql),
    cutDatabase: async () => {
      await run('postgres', `ALTER DATABASE ${DATABASE} ALLOW_CONNECTIONS false`);
      await run('postgres', `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${DATABASE}'`);
    },
  };
}

/** While a worker starts, the metrics of all cannot be read. */
async function waitForMetrics(url: string): Promise<void> {
  await eventually(
    `${url} answers`,
    async () => {
      const response = await fetch(url);
      await response.body?.cancel();
      return response.ok;
    },
    START_TIMEOUT_MS,
  );
}

/** A service that was reached by a thief: one refresh token is used twice. */
export async function stealRefreshToken({ url, client }: WatchedService): Promise<void> {
  const person = { email: 'alice@example.org', password: 'correct horse battery' };
  await client.register(person);
  const { refresh_token }: TokenPair = await client.logIn(person);
  for (const expected of [200, 401]) await expectStatus(expected, `${url}/api/v0/auth/refresh`, { refresh_token });
}

export async function validateNode({ url }: WatchedService, expected: number): Promise<void> {
  await expectStatus(expected, `${url}/internal/validate-node`, undefined, {
    'X-API-Key': '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10:not-a-key',
  });
}

async function expectStatus(expected: number, url: string, body?: object, headers = {}): Promise<void> {
  const call = async (): Promise<Response> => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...(body && { 'Content-Type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    await response.body?.cancel();
    return response;
  };
  const { status } = await untilVerdict(call);
  if (status !== expected) throw new Error(`${url} answered ${status} instead of ${expected}`);
}

/** A logging service that takes every line. */
async function startLogSink(cleanup: Cleanup): Promise<string> {
  const { url, close } = await serve((request, response) => {
    request.resume().once('end', () => response.writeHead(204).end());
  });
  cleanup.defer(close);
  return `${url}/logs`;
}
