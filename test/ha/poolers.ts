// PgBouncer before HAProxy, in the mode that works and in those that the service refuses.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ApiClient, type NodeCredential } from '../../tools/api-client.js';
import type { Checks } from '../../tools/checks.js';
import { claimPort } from '../../tools/claim-port.js';
import { eventually } from '../../tools/eventually.js';
import { withClient } from '../../tools/postgres.js';
import { Program } from '../../tools/program.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { replaceSettings } from '../../tools/replace-settings.js';
import { statusOf, type ServerProcess } from '../../tools/server-process.js';
import type { Cluster } from './cluster.js';
import { ADMIN_KEY, makeService } from './services.js';
import { giveTo, writePgBouncer, type Place } from './shipped-files.js';

const VALIDATIONS = 100;
const NODE = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
const UNKNOWN_NODE = { node_id: '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f', api_key: 'unknown' };
const storedPassword = z.tuple([z.object({ secret: z.string() })]);

/** Starts PgBouncer with deploy/ha/pgbouncer.ini. @returns the URL of the database behind it */
async function startPgBouncer(place: Place, cluster: Cluster, mode: string): Promise<string> {
  const primary = await cluster.awaitPrimary();
  const [{ secret }] = storedPassword.parse(
    await primary.query(`SELECT rolpassword AS secret FROM pg_authid WHERE rolname = 'auth_owner'`),
  );
  const users = join(place.folder, 'userlist.txt');
  writeFileSync(users, `"auth_owner" "${secret}"\n`, { mode: 0o600 });
  giveTo(place.user, users);
  const port = await claimPort();
  const pgbouncer = Program.start(place.cleanup, 'pgbouncer', [writePgBouncer(place, mode, port, users)], place.user);
  await eventually(`PgBouncer listens in pool_mode = ${mode}`, () => pgbouncer.output.includes('process up'));
  return `postgresql://auth_owner:${place.password}@127.0.0.1:${port}/auth`;
}

function validate({ url }: ServerProcess, { node_id, api_key }: NodeCredential): Promise<number | undefined> {
  const headers = { 'X-API-Key': `${node_id}:${api_key}` };
  return statusOf(`${url}/internal/validate-node`, { method: 'POST', headers });
}

/** A statement that PostgreSQL itself does not end waits on after the service has given up on it. */
function limitsHold(service: ServerProcess, databaseUrl: string): Promise<boolean> {
  return withClient(databaseUrl, async (locker) => {
    await locker.query('BEGIN; LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE');
    const status = await validate(service, UNKNOWN_NODE);
    const isOver = async (): Promise<boolean> =>
      (await locker.query(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)).rows.length === 0;
    // PostgreSQL and the service have the same limit: either may end the statement first.
    const hasEnded = eventually('PostgreSQL ends the statement', isOver).then(
      () => true,
      () => false,
    );
    return status === 503 && (await hasEnded);
  });
}

export async function checkSessionMode(checks: Checks, place: Place, cluster: Cluster): Promise<void> {
  const service = await makeService(place, await startPgBouncer(place, cluster, 'session'));
  await service.start();
  checks.note('PgBouncer, pool_mode = session: the service starts and is healthy', true);
  const node = await new ApiClient(service.url, ADMIN_KEY).issueNode(NODE);
  const ask = async () => ({ status: await validate(service, node) });
  const answers = await Promise.all(Array.from({ length: VALIDATIONS }, () => untilVerdict(ask)));
  const refused = answers.filter(({ status }) => status !== 200).length;
  checks.note('PgBouncer, pool_mode = session: 100 validations at once are 200', refused === 0, `${refused} were not`);
  checks.note(
    'PgBouncer, pool_mode = session: limits hold that it drops at the start',
    await limitsHold(service, cluster.url),
  );
  checks.note('PgBouncer, pool_mode = session: the service stops cleanly', (await service.stop()) === 0);
}

export async function checkRefusedMode(checks: Checks, place: Place, cluster: Cluster, mode: string): Promise<void> {
  const service = await makeService(place, await startPgBouncer(place, cluster, mode), {
    NODE_OPTIONS: replaceSettings({ startTimeoutSeconds: 10 }),
  });
  await service.launch();
  const output = service.lastLines.join('\n');
  const isNamed = /PgBouncer.*pool_mode = transaction or statement.*pool_mode = session/.test(output);
  const isRefused = (await service.exited()) === 1 && isNamed;
  checks.note(`PgBouncer, pool_mode = ${mode}: refused at the start by name`, isRefused, output);
}
