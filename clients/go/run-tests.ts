// Tests the verifier for Go: vet, staticcheck, the tests of each module, the code of the documents, and the verifier before the
// built service. At night all tests have the race detector. The last line counts.
//   npm run test:go
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ApiClient } from '../../tools/api-client.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { startFirstRun } from '../../test/browser/service.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { collectGoCode } from './documents.js';
import { mistakes, type Mistake } from './mistakes.js';

/** Started from the root of the project. */
const PROJECT = resolve('clients/go');
const MODULES = ['.', 'platformauthgrpc', 'platformauthotel'];
/** The newest that Go 1.24 builds. */
const STATICCHECK = 'honnef.co/go/tools/cmd/staticcheck@v0.6.1';
/** A test changes no go.mod, and downloads no other Go. */
const GO = { GOFLAGS: '-mod=readonly', GOTOOLCHAIN: 'local' };

/** By day only the verifier itself has the race detector, for which Go compiles every dependency once more. */
const RACE = IS_NIGHTLY ? ['-race'] : [];
/** The worlds take most of the CPU of the verifier's tests, and several times as much with the race detector. */
const WORLDS = '^TestWorlds';
/** At night all are played, and otherwise every fourth: each is another build of the verifier. */
const PLAYED_MISTAKES = mistakes.filter((_, index) => IS_NIGHTLY || index % 4 === 0);
/** gin without MessagePack, whose codec would take longer to compile than gin. */
const GIN = ['-tags', 'nomsgpack'];

/** What the play of the worlds prints, in contrast to a verifier that does not compile. */
const BROKEN_PROMISE = 'the promise is broken: ';

const checks = new Checks();

function runGo(module: string, ...words: string[]): void {
  execFileSync('go', words, { cwd: resolve(PROJECT, module), env: { ...process.env, ...GO }, stdio: 'pipe' });
}

/**
 * Runs `go test`, and counts its tests; a skipped one counts as failed. Go's cache does not notice a change of ../conformance.
 * Without vet, which has checked all modules by then.
 */
function runTests(module: string, flags: readonly string[], variables: Readonly<Record<string, string>> = {}): void {
  const { stdout, stderr, status } = spawnSync('go', ['test', '-vet=off', '-count=1', '-json', ...flags, './...'], {
    cwd: resolve(PROJECT, module),
    env: { ...process.env, ...GO, ...variables },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  const events = stdout.split('\n').filter((line) => line.startsWith('{'));
  const results = events.map((line) => JSON.parse(line) as { Action: string; Test?: string; Output?: string });
  const count = (action: string): number => results.filter(({ Action, Test }) => Test && Action === action).length;
  const failed = count('fail') + count('skip');
  if (status !== 0 || failed > 0) console.log(results.map(({ Output = '' }) => Output).join('') + stderr);
  checks.add({ passed: count('pass'), failed: failed || (status === 0 ? 0 : 1) });
}

function testModule(module: string): void {
  if (module === '.' && !IS_NIGHTLY) {
    runTests(module, ['-race', '-skip', WORLDS]);
    runTests(module, ['-run', WORLDS]);
  } else {
    runTests(module, RACE);
  }
}

/** @returns the tests outside of the verifier's package, which the worlds do not need */
function listOutsideTests(): string[] {
  const tests = readdirSync(PROJECT).filter((name) => name.endsWith('_test.go'));
  return tests
    .map((name) => join(PROJECT, name))
    .filter((path) => /^package platformauth_test$/m.test(readFileSync(path, 'utf8')));
}

/** Plays the worlds with a verifier that makes this mistake. @throws unless they find it */
function findMistake(folder: string, { file, from, to }: Mistake): void {
  const source = join(PROJECT, file);
  const parts = readFileSync(source, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places that read: ${from}`);
  const [replaced, overlay] = [join(folder, file), join(folder, 'overlay.json')];
  writeFileSync(replaced, parts.join(to));
  // Go compiles what an overlay replaces by nothing as if it were not there.
  const leftOut = Object.fromEntries(listOutsideTests().map((path) => [path, '']));
  writeFileSync(overlay, JSON.stringify({ Replace: { ...leftOut, [source]: replaced } }));
  // As fast to build as possible.
  const flags = ['test', '-vet=off', '-ldflags=-s -w', '-count=1', '-overlay', overlay, '-run', '^TestWorlds$', '.'];
  const { stdout, stderr } = spawnSync('go', flags, { cwd: PROJECT, env: { ...process.env, ...GO }, encoding: 'utf8' });
  if (!stdout.includes(BROKEN_PROMISE)) throw new Error(`not found: ${stdout}${stderr}`);
}

/** Compiles the code of the documents with gin, echo and gRPC, in a copy of documents/, and tests the guards in it. */
function testDocuments(cleanup: Cleanup): void {
  const folder = makeTemporaryFolder(cleanup, 'go-documents');
  cpSync(join(PROJECT, 'documents'), folder, { recursive: true });
  for (const name of ['', '/platformauthgrpc'])
    runGo(folder, 'mod', 'edit', `-replace=platform-auth.example/clients/go${name}=${PROJECT}${name}`);
  appendFileSync(join(folder, 'documents.go'), collectGoCode());
  runTests(folder, [...RACE, ...GIN, '-vet=all']);
}

/** @returns what the test before the service needs */
async function makePlatform(cleanup: Cleanup): Promise<Record<string, string>> {
  const { server, adminKey } = await startFirstRun(cleanup);
  const client = new ApiClient(server.url, adminKey);
  const person = { email: 'alice@example.org', password: 'correct horse battery' };
  await client.register(person);
  const own = await client.issueAppCredential({ caller: 'recipes', target: 'auth' });
  const app = await client.issueAppCredential({ caller: 'meals', target: 'recipes' });
  const household_id = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
  const node = await client.issueNode({ household_id, room: 'hall', name: 'lamp' });
  return {
    AUTH_URL: server.url,
    AUTH_APP_ID: own.app_id,
    AUTH_APP_KEY: own.app_key,
    SERVICE_NAME: 'recipes',
    TEST_PLATFORM: JSON.stringify({ url: server.url, admin_key: adminKey, ...person, node, app }),
  };
}

/** The version under which the modules are released. */
function readVersion(): string {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  return `v${version}`;
}

await checks.around(async (cleanup) => {
  for (const module of MODULES) {
    await checks.run(`${module}: gofmt`, () => {
      const unformatted = execFileSync('gofmt', ['-l', '.'], { cwd: join(PROJECT, module), encoding: 'utf8' });
      if (unformatted !== '') throw new Error(unformatted);
    });
    await checks.run(`${module}: go vet`, () => runGo(module, 'vet', '-tags', 'service', './...'));
    await checks.run(`${module}: staticcheck`, () => runGo(module, 'run', STATICCHECK, './...'));
    testModule(module);
  }
  await checks.run('the code of the documents', () => testDocuments(cleanup));
  const folder = makeTemporaryFolder(cleanup, 'go-mistakes');
  for (const mistake of PLAYED_MISTAKES)
    await checks.run(`finds a mistake: ${mistake.name}`, () => findMistake(folder, mistake));
  for (const module of MODULES.slice(1)) {
    await checks.run(`${module}: requires this version`, () => {
      const manifest = readFileSync(join(PROJECT, module, 'go.mod'), 'utf8');
      if (!manifest.includes(`platform-auth.example/clients/go ${readVersion()}\n`)) throw new Error(manifest);
    });
  }
  runTests('.', [...RACE, '-tags', 'service', '-run', 'TestBeforeTheService'], await makePlatform(cleanup));
  if (!IS_NIGHTLY)
    console.log(
      `Left to .ci/nightly: ${mistakes.length - PLAYED_MISTAKES.length} of ${mistakes.length} mistakes, and the race ` +
        'detector for the worlds, the other modules, the documents and the service',
    );
});
