// Runs every shell block of the runbooks as it is written, against PostgreSQL as Debian ships it and the built service. A
// block that cannot run here says why in the page. Needs psql, pg_dump and curl. The last line counts.
import { deepStrictEqual, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { ApiClient } from '../../tools/api-client.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { Operator } from './operator.js';
import { readBlocks, type Block } from '../documents/blocks.js';

const checks = new Checks();

async function runBlocks(
  operator: Operator,
  blocks: readonly Block[],
  after?: (block: Block) => Promise<void>,
): Promise<void> {
  for (const block of blocks) {
    if (block.reason !== undefined) {
      console.log(`- ${block.name} is not run: ${block.reason}`);
      continue;
    }
    await checks.run(block.name, () => operator.shell(block.text));
    await after?.(block);
  }
}

/** A thief who has the connection string of the service, and a session. */
async function connectAsThief(cleanup: Cleanup, operator: Operator): Promise<() => boolean> {
  const client = new Client(operator.urlOf('auth_service'));
  let hasEnded = false;
  client.on('error', () => undefined).on('end', () => (hasEnded = true));
  await client.connect();
  cleanup.defer(() => client.end());
  return () => hasEnded;
}

async function checkIncidents(cleanup: Cleanup, operator: Operator): Promise<void> {
  const [connection, shell, ...blocks] = readBlocks('docs/operations/incidents.md');
  if (!connection || !shell) throw new Error('incidents.md has no shell');
  await checks.run(connection.name, () => operator.shell(connection.text));
  operator.beginShellsWith(shell.text);
  await checks.run(shell.name, () => operator.shell('psql --command "SELECT 1"'));
  await operator.shell('DATABASE_URL=$OWNER_URL platform-auth migrate --grant-to auth_service');
  await operator.shell('systemctl start platform-auth');
  const client = new ApiClient(operator.url, operator.adminKey);
  const person = { email: `${randomUUID()}@example.org`, password: 'correct horse battery' };
  const { id } = await client.register(person);
  Object.assign(operator.named, { '<user>': id, '<address>': 'alice@example.org' });
  const hasEnded = await connectAsThief(cleanup, operator);
  await runBlocks(operator, blocks);
  await checks.run('the session of the thief has ended, and the service answers', async () => {
    ok(hasEnded());
    deepStrictEqual((await fetch(`${operator.url}/health`)).status, 200);
  });
}

async function checkBackup(operator: Operator): Promise<void> {
  const call = async (path: string, method = 'GET', body?: object): Promise<Record<string, unknown>> => {
    const headers = { 'X-Admin-Key': operator.adminKey, ...(body && { 'Content-Type': 'application/json' }) };
    const answer = await fetch(`${operator.url}/api/v0/admin${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    ok(answer.ok, `${method} ${path} answered ${answer.status}`);
    return answer.status === 204 ? {} : ((await answer.json()) as Record<string, unknown>);
  };
  const { node_id: id } = await call('/nodes', 'POST', { household_id: randomUUID(), room: 'attic', name: 'camera' });
  await runBlocks(operator, readBlocks('docs/operations/backup.md'), async ({ text }) => {
    if (text.includes('> auth.dump')) await call(`/nodes/${String(id)}`, 'DELETE');
  });
  await checks.run('a node that was revoked after the dump is revoked after the restore', async () =>
    ok((await call(`/nodes/${String(id)}`)).revoked_at),
  );
}

await checks.around(async (cleanup) => {
  const operator = await Operator.start(cleanup);
  await checkIncidents(cleanup, operator);
  await checkBackup(operator);
  await runBlocks(operator, readBlocks('docs/operations/upgrade.md'));
});
