// Runs examples/platform by its one command, types what it prints, revokes through the command line while callers go on, and
// checks that nothing remains. Needs Python 3.11 with venv, a package index, bash, curl and ps, and Go for one of the
// services. The last line counts.
import { deepStrictEqual, match, ok } from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { isResponding } from '../../tools/server-process.js';
import { checkActingForUsers } from './acting-for-users.js';
import { Example } from './example.js';
import { watchRevocation, type Verdict } from './watch.js';

const RUN_FOLDER = 'examples/platform/.run';
const NO_PYTHON = { PYTHON: '/nonexistent/python3' };
/** Go ends at once with it. */
const NO_GO = { GOROOT: '/nonexistent' };
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const ASK = {
  first: 'In another terminal, first:',
  user: 'A user calls recipes (TypeScript):',
  node: 'A node calls ocr (Python), which calls recipes (TypeScript) with its own key:',
  camera: 'A node calls recipes:',
  member: 'A user commands a node of their household:',
  neighbour: 'A user of another household is refused:',
  favourite: 'The neighbour has a favourite recipe, which recipes keeps:',
  app: 'A user calls recipes (TypeScript), which calls ocr (Python) with its own key:',
};
const REVOKE = {
  first: 'In the third terminal, first:',
  member: 'Remove the user from the household:',
  node: 'Revoke the node:',
  app: 'Revoke the key with which recipes calls ocr:',
  user: 'End the sessions of the user:',
  neighbour: 'Delete the neighbour (a few seconds later recipes says here what it has deleted):',
};
/** SECRET_KEY, MASTER_KEY, AUDIT_SEAL_KEY, ADMIN_API_KEY, six app keys and the node's key. */
const MIN_SECRETS = 11;
const hasGo = spawnSync('go', ['version']).status === 0;
const checks = new Checks();

/** Runs a task with an example, and leaves no process of it behind. */
async function withExample(
  { cleanup, words, variables }: { cleanup: Cleanup; words: string[]; variables?: Record<string, string> },
  task: (example: Example) => Promise<void>,
): Promise<void> {
  cleanup.assertOpen();
  const example = new Example(['--free-ports', ...words], variables);
  cleanup.defer(() => example.end());
  try {
    await task(example);
  } catch (error) {
    console.log(example.output);
    throw error;
  }
}

/** What an example makes outside of its processes. */
function listFolders(): string[] {
  const runs = existsSync(RUN_FOLDER) ? readdirSync(RUN_FOLDER).map((name) => `${RUN_FOLDER}/${name}`) : [];
  return [...runs, ...readdirSync(tmpdir()).filter((name) => name.startsWith('platform-auth-example-'))];
}

async function checkMissingPython(cleanup: Cleanup): Promise<void> {
  await checks.run('says what to do when Python is missing, and starts nothing', () =>
    withExample({ cleanup, words: [], variables: NO_PYTHON }, async (example) => {
      deepStrictEqual(await example.fails(), 1);
      match(example.output, /needs Python 3\.11 or newer.*\/nonexistent\/python3 is missing/);
      match(example.output, /npm run example -- --without-python/);
      ok(!example.output.includes('Starting'));
    }),
  );
}

async function call(url: string, headers: Readonly<Record<string, string>>, init: RequestInit = {}): Promise<Verdict> {
  const response = await untilVerdict(() => fetch(url, { ...init, headers }));
  const text = await response.text();
  if (response.status === 200) return 'accepted';
  const isRefused = [401, 404].includes(response.status) || text.includes('ocr answered 401 to recipes');
  return isRefused ? 'refused' : `strange: ${response.status} ${text}`;
}

async function checkCalls(example: Example): Promise<void> {
  const json = async (heading: string): Promise<unknown> => JSON.parse(await example.types(ASK.first, heading));
  await checks.run('a user is accepted by the TypeScript service', async () =>
    deepStrictEqual(await json(ASK.user), { reader: 'alice@example.org', drafts: [] }),
  );
  await checks.run('a node is accepted by the Python service', async () =>
    deepStrictEqual(await json(ASK.node), { household_id: HOUSEHOLD, text: 'pancakes', draft: 1 }),
  );
  await checks.run('the Python service is accepted by the TypeScript service', async () =>
    deepStrictEqual(await json(ASK.user), { reader: 'alice@example.org', drafts: [{ from: 'ocr', text: 'pancakes' }] }),
  );
  await checks.run('the TypeScript service is accepted by the Python service', async () =>
    deepStrictEqual(await json(ASK.app), { asked_by: 'recipes', languages: ['de', 'en'] }),
  );
  await checkHousehold(example);
  if (hasGo) await checkActingForUsers(checks, example);
  else checks.skip('services that act for users', 'there is no Go for the last one');
  await checks.run('the keys come from init, and doctor finds no problem', () => {
    match(example.output, /│ recipes +│ ocr +│ issue/);
    ok(example.lines.includes('No problems found.'));
  });
}

async function checkHousehold(example: Example): Promise<void> {
  const [camera, photo, refusal] = (await example.types(ASK.first, ASK.camera, ASK.member, ASK.neighbour))
    .replaceAll('}{', '}\n{')
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  await checks.run('a user commands a node of their household, and is refused the node of another', () => {
    deepStrictEqual(photo, { photo_of: camera?.camera, taken_by: 'alice@example.org' });
    deepStrictEqual([refusal?.status, refusal?.code], [404, 'not_found']);
  });
}

async function checkDeletion(example: Example): Promise<void> {
  await checks.run('recipes deletes what it knows of a user who was deleted', async () => {
    const answer: unknown = JSON.parse(await example.types(ASK.first, ASK.favourite));
    deepStrictEqual(answer, { favourites: ['pancakes'] });
    await example.types(REVOKE.first, REVOKE.neighbour);
    await example.prints(/^recipes: Deleted the favourites of user [\da-f-]{36}\.$/);
  });
}

async function checkRefusals(example: Example): Promise<void> {
  const names = ['RECIPES_URL', 'OCR_URL', 'NODE_ID', 'API_KEY', 'TOKEN'];
  const [recipes = '', ocr = '', nodeId = '', apiKey = '', token = ''] = await example.reads(ASK.first, ...names);
  const pair = `${nodeId}:${apiKey}`;
  const user = { Authorization: `Bearer ${token}` };
  const post = { method: 'POST', body: 'pancakes' };
  await checks.run('every door refuses a request without a credential', async () => {
    const asked = [call(`${ocr}/photos`, {}, post), call(`${ocr}/languages`, {}), call(`${recipes}/recipes`, {})];
    deepStrictEqual(await Promise.all([...asked, call(`${recipes}/drafts`, {}, post)]), Array(4).fill('refused'));
  });
  const revoke = (heading: string) => () => example.types(REVOKE.first, heading);
  const photos = `${recipes}/cameras/${nodeId}/photos`;
  await checks.run('no call of a member is accepted after the command that removed the user has returned', () =>
    watchRevocation(() => call(photos, user, { method: 'POST' }), revoke(REVOKE.member)),
  );
  await checks.run('no call of a node is accepted after the command that revoked it has returned', () =>
    watchRevocation(() => call(`${ocr}/photos`, { 'X-API-Key': pair }, post), revoke(REVOKE.node)),
  );
  await checks.run('no call of a service is accepted after the command that revoked its key has returned', () =>
    watchRevocation(() => call(`${recipes}/languages`, user), revoke(REVOKE.app)),
  );
  await checks.run('no call of a user is accepted after the command that ended the sessions has returned', () =>
    watchRevocation(() => call(`${recipes}/recipes`, user), revoke(REVOKE.user)),
  );
}

/** @returns every key in the files of the services and of the node */
function readSecrets(example: Example): string[] {
  const files = ['env/auth.env', 'env/recipes.env', 'env/ocr.env', 'env/documents.env', 'camera.env'];
  const text = files.map((name) => example.readFile(name)).join('\n');
  return [...text.matchAll(/_KEY=(.+)$/gm)].map(([, key = '']) => key);
}

/** @returns the address of the example's PostgreSQL */
function readDatabaseUrl(example: Example): string {
  const [, url = ''] = /^DATABASE_URL=(.+)$/m.exec(example.readFile('env/auth.env')) ?? [];
  return `http://${new URL(url).host}`;
}

async function checkWhole(cleanup: Cleanup, before: readonly string[]): Promise<void> {
  await withExample({ cleanup, words: [] }, async (example) => {
    await example.prints(/^Ready\./);
    await checkCalls(example);
    await checkRefusals(example);
    await checkDeletion(example);
    const secrets = readSecrets(example);
    const services = await example.reads(ASK.first, 'AUTH_URL', 'RECIPES_URL', 'OCR_URL', 'DOCUMENTS_URL');
    const urls = [...services, readDatabaseUrl(example)];
    await checks.run('Ctrl-C stops every process and removes keys and data', async () => {
      await example.interrupt();
      deepStrictEqual(await Promise.all(urls.map((url) => isResponding(url))), Array(urls.length).fill(false));
      deepStrictEqual(listFolders(), before);
      ok(example.lines.includes('Everything is stopped; keys and data are removed.'));
    });
    await checks.run('prints no secret', () => {
      ok(secrets.length >= MIN_SECRETS);
      ok(!secrets.some((secret) => example.output.includes(secret)));
    });
  });
}

async function checkInterruptedStart(cleanup: Cleanup, before: readonly string[]): Promise<void> {
  await checks.run('Ctrl-C during the start leaves nothing behind', () =>
    withExample({ cleanup, words: [] }, async (example) => {
      await example.prints(/^platform-auth init/);
      await example.interrupt();
      deepStrictEqual(listFolders(), before);
    }),
  );
}

async function checkWithoutGo(cleanup: Cleanup): Promise<void> {
  await checks.run('runs without Go, and says why a service is left out', () =>
    withExample({ cleanup, words: [], variables: NO_GO }, async (example) => {
      await example.prints(/^Ready\./);
      match(example.output, /^The service documents is left out, because it cannot be compiled.* go /m);
      ok(!example.output.includes('documents (Go)'));
      deepStrictEqual(JSON.parse(await example.types(ASK.first, ASK.app)), {
        asked_by: 'recipes',
        languages: ['de', 'en'],
      });
      await example.interrupt();
    }),
  );
}

async function checkWithoutPython(cleanup: Cleanup): Promise<void> {
  await checks.run('runs without Python when it is told so', () =>
    withExample({ cleanup, words: ['--without-python'], variables: NO_PYTHON }, async (example) => {
      await example.prints(/^Ready\./);
      const answer: unknown = JSON.parse(await example.types(ASK.first, ASK.user));
      deepStrictEqual(answer, { reader: 'alice@example.org', drafts: [] });
      await checkHousehold(example);
      await example.interrupt();
    }),
  );
}

await checks.around(async (cleanup) => {
  const before = listFolders();
  await checkMissingPython(cleanup);
  await checkWhole(cleanup, before);
  await checkInterruptedStart(cleanup, before);
  await checkWithoutGo(cleanup);
  await checkWithoutPython(cleanup);
});
