// The configurations of deploy/ha/ with the real HAProxy and PgBouncer, which Debian ships, before a real primary and
// its streaming standby. Patroni is stood in for by its one answer that HAProxy asks for. Prints what was checked; the
// last line counts it.
import { execFileSync } from 'node:child_process';
import type { Variables } from '../../src/config/environment.js';
import { claimPort } from '../../tools/claim-port.js';
import { ApiClient, type NodeCredential } from '../../tools/api-client.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { makeTemporaryFolder, withClient } from '../../tools/postgres.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import { isHealthy, ServerProcess, statusOf } from '../../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from '../../tools/service.js';
import { replaceSettings } from '../../tools/replace-settings.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { HAPROXY_CONFIGURATION, startHaproxy, startPgBouncer, type Setting } from './proxies.js';

const FAILOVER_TIMEOUT_MS = 120_000;
const VALIDATIONS = 100;
const UNKNOWN_NODE = { node_id: '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f', api_key: 'unknown' };
const secrets = makeSecrets();
const checks = new Checks();

async function makeService(cleanup: Cleanup, databaseUrl: string, more: Variables = {}): Promise<ServerProcess> {
  return new ServerProcess(await claimPort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    variables: { ...productionVariables(databaseUrl, secrets), BCRYPT_COST: '4', LOG_LEVEL: 'warn', ...more },
    isReady: isHealthy,
    onLine: () => undefined,
  });
}

function registerNode({ url }: ServerProcess): Promise<NodeCredential> {
  const client = new ApiClient(url, secrets.ADMIN_API_KEY);
  return client.registerNode({ household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' });
}

function validate({ url }: ServerProcess, { node_id, api_key }: NodeCredential): Promise<number | undefined> {
  const headers = { 'X-API-Key': `${node_id}:${api_key}` };
  return statusOf(`${url}/internal/validate-node`, { method: 'POST', headers });
}

/** Asks again while the service could not look, as on a busy machine. */
async function validateUntilVerdict(service: ServerProcess, node: NodeCredential): Promise<number | undefined> {
  return (await untilVerdict(async () => ({ status: await validate(service, node) }))).status;
}

/** A statement that PostgreSQL itself does not end waits on after the service has given up on it. */
function limitsHold(service: ServerProcess, postgres: PostgresServer): Promise<boolean> {
  return withClient(postgres.url, async (locker) => {
    await locker.query('BEGIN; LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE');
    const status = await validate(service, UNKNOWN_NODE);
    const isOver = async (): Promise<boolean> =>
      (await postgres.query(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)).length === 0;
    // PostgreSQL and the service have the same limit: either may end the statement first.
    const hasEnded = eventually('PostgreSQL ends the statement', isOver).then(
      () => true,
      () => false,
    );
    return status === 503 && (await hasEnded);
  });
}

async function checkSessionMode(setting: Setting, postgres: PostgresServer): Promise<void> {
  const service = await makeService(setting.cleanup, await startPgBouncer(setting, postgres, 'session'));
  await service.start();
  checks.note('PgBouncer, pool_mode = session: the service starts and is healthy', true);
  const node = await registerNode(service);
  const statuses = await Promise.all(Array.from({ length: VALIDATIONS }, () => validateUntilVerdict(service, node)));
  const areGood = statuses.every((status) => status === 200);
  checks.note('PgBouncer, pool_mode = session: 100 validations at once are 200', areGood, statuses.join());
  checks.note(
    'PgBouncer, pool_mode = session: limits hold that it drops at the start',
    await limitsHold(service, postgres),
  );
  checks.note('PgBouncer, pool_mode = session: the service stops cleanly', (await service.stop()) === 0);
}

async function checkRefusedMode(setting: Setting, postgres: PostgresServer, mode: string): Promise<void> {
  const url = await startPgBouncer(setting, postgres, mode);
  const service = await makeService(setting.cleanup, url, {
    NODE_OPTIONS: replaceSettings({ startTimeoutSeconds: 10 }),
  });
  await service.launch();
  const output = service.lastLines.join('\n');
  const isNamed = /PgBouncer.*pool_mode = transaction or statement.*pool_mode = session/.test(output);
  const isRefused = (await service.exited()) === 1 && isNamed;
  checks.note(`PgBouncer, pool_mode = ${mode}: refused at the start by name`, isRefused, output);
}

async function checkFailover(setting: Setting, primary: PostgresServer): Promise<void> {
  const standby = await primary.withStandby({ isSynchronous: true });
  const url = await startHaproxy(setting, [primary, standby]);
  const service = await makeService(setting.cleanup, url, { REVOCATION_LEASE_MS: '0' });
  await service.start();
  const before = await registerNode(service);
  checks.note('HAProxy: the service works on the primary', (await validateUntilVerdict(service, before)) === 200);
  await primary.kill();
  const statuses = new Set<number | undefined>();
  for (let asked = 0; asked < 20; asked += 1) statuses.add(await validate(service, before));
  const found = [...statuses].join();
  checks.note('HAProxy: without a primary every validation is 503', found === '503', found);
  await standby.promote();
  const isReady = async (): Promise<boolean> => {
    if (service.hasExited) throw new Error(`The service has exited:\n${service.lastLines.join('\n')}`);
    return isHealthy(service.url);
  };
  await eventually('the service is ready on the promoted standby', isReady, FAILOVER_TIMEOUT_MS);
  checks.note(
    'HAProxy: the acknowledged node is valid on the promoted standby',
    (await validateUntilVerdict(service, before)) === 200,
  );
  checks.note(
    'HAProxy: a write succeeds there',
    (await validateUntilVerdict(service, await registerNode(service))) === 200,
  );
  checks.note('HAProxy: the service stops cleanly', (await service.stop()) === 0);
}

async function checkAll(setting: Setting): Promise<void> {
  execFileSync('haproxy', ['-c', '-f', HAPROXY_CONFIGURATION], { stdio: 'ignore' });
  checks.note('deploy/ha/haproxy.cfg is valid', true);
  const postgres = await PostgresServer.start(setting.cleanup, 'ha');
  await checkSessionMode(setting, postgres);
  for (const mode of ['transaction', 'statement']) await checkRefusedMode(setting, postgres, mode);
  await checkFailover(setting, postgres);
}

await checks.around(async (cleanup) => {
  await checkAll({ cleanup, folder: makeTemporaryFolder(cleanup, 'ha') });
});
