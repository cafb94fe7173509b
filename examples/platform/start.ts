// Starts a small platform: this service, recipes (TypeScript), ocr (Python) and documents (Go), which embed a verifier, with
// keys and files of `platform-auth init`. Prints what to try, and stops and removes everything on Ctrl-C. README.md shows it.
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { parse as parseVariables } from 'dotenv';
import { z } from 'zod';
import { ApiClient } from '../../tools/api-client.js';
import { Cleanup } from '../../tools/cleanup.js';
import { readCommandLine } from '../../tools/command-line.js';
import { startPostgres, UNSAFE } from '../../tools/postgres.js';
import { isResponding, isHealthy, ServerProcess, type ServerOptions } from '../../tools/server-process.js';
import { SERVICE_FLAGS, SERVICE_SCRIPT } from '../../tools/service.js';
import { runChild } from './child.js';
import { describeCommands, HOUSEHOLD, NEIGHBOUR, USER } from './commands.js';
import { buildDocuments } from './go.js';
import { CLI, EXAMPLE, ExampleError, toPath } from './paths.js';
import { portOf, prepareFolder, type Platform } from './platform-folder.js';
import { preparePython } from './python.js';

const USAGE = `Usage: npm run example -- [--without-python] [--free-ports]

--without-python  leave out ocr, the Python service, and documents, which only ocr calls
--free-ports      listen on ports that are free, not on those of ${EXAMPLE}/platform.yaml`;
const COMMAND_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 5_000;
const registered = z.object({ node_id: z.string() });

const options = readCommandLine(USAGE, () => {
  const flag = { type: 'boolean', default: false } as const;
  return parseArgs({ options: { 'without-python': flag, 'free-ports': flag } }).values;
});

const say = (text: string): void => console.log(text);

async function start(cleanup: Cleanup): Promise<void> {
  cleanup.defer(() => say('Everything is stopped; keys and data are removed.'));
  const python = options['without-python'] ? undefined : preparePython();
  const platform = await prepareFolder(cleanup, options['free-ports']);
  linkVerifier();
  const documents = python && buildDocuments(platform.folder, say);
  await makeKeys(platform);
  const servers = [await startAuth(platform), await startRecipes(platform)];
  if (python !== undefined) servers.push(await startOcr(platform, python));
  if (documents !== undefined) servers.push(await startService(platform, 'documents', { program: documents }));
  if (python !== undefined) say(await runCli(platform, ['doctor', ...describePlace(platform)]));
  const nodeId = await registerCallers(platform);
  const { OCR_APP_ID: appId = '' } = readEnv(platform, 'recipes');
  const { urls, folder } = platform;
  const has = { hasPython: python !== undefined, hasGo: documents !== undefined };
  say(`\n${describeCommands({ urls, folder, nodeId, appId, ...has })}`);
  say('\nReady. Stop everything with Ctrl-C.');
  const ended = await Promise.race(servers.map(async (server) => [server.url, await server.exited()]));
  cleanup.assertOpen();
  throw new ExampleError(`The service at ${ended[0] ?? ''} has exited unexpectedly.`);
}

/** What `npm install <path of clients/typescript>` does in a service of yours. */
function linkVerifier(): void {
  const modules = toPath('dist', EXAMPLE, 'node_modules/@platform-auth');
  mkdirSync(modules, { recursive: true });
  // Replaces the link of an earlier start; a folder in its place would be an error.
  rmSync(`${modules}/verifier`, { force: true });
  symlinkSync(toPath('clients/typescript'), `${modules}/verifier`, 'junction');
}

async function makeKeys(platform: Platform): Promise<void> {
  say('Starting a PostgreSQL …');
  const { cleanup, folder } = platform;
  const postgres = await startPostgres({ cleanup, purpose: 'example', settings: UNSAFE });
  // Tokens for users need it. The default, HS256, would let each service that verifies tokens sign one.
  mkdirSync(toPath(folder, 'env'), { mode: 0o700 });
  writeFileSync(toPath(folder, 'env/auth.env'), 'ACCESS_TOKEN_ALGORITHM=ES256\n', { mode: 0o600 });
  const words = ['init', ...describePlace(platform)];
  say(`platform-auth ${words.join(' ')}`);
  say(await runCli(platform, words, { variables: { DATABASE_URL: postgres.url() } }));
}

function describePlace({ mapPath, folder }: Platform): string[] {
  return ['--map', mapPath, '--env-dir', `${folder}/env`];
}

function readEnv({ folder }: Platform, service: string): Readonly<Record<string, string>> {
  return parseVariables(readFileSync(toPath(folder, 'env', `${service}.env`)));
}

async function startAuth(platform: Platform): Promise<ServerProcess> {
  const own = { NODE_ENV: 'production', HOST: '127.0.0.1', ADMIN_SET_PASSWORDS: 'refused' };
  const more = { ...own, LOG_LEVEL: 'warn', SHUTDOWN_DELAY_MS: '0' };
  return startService(platform, 'auth', { script: SERVICE_SCRIPT, flags: SERVICE_FLAGS, isReady: isHealthy }, more);
}

async function startRecipes(platform: Platform): Promise<ServerProcess> {
  return startService(platform, 'recipes', { script: toPath('dist', EXAMPLE, 'recipes/server.js') });
}

async function startOcr(platform: Platform, python: string): Promise<ServerProcess> {
  const address = ['--host', '127.0.0.1', '--port', String(portOf(platform.urls.ocr))];
  const program = { program: python, flags: ['-m', 'uvicorn'], script: 'main:app' };
  const place = { words: [...address, '--log-level', 'warning'], cwd: toPath(EXAMPLE, 'ocr') };
  return startService(platform, 'ocr', { ...program, ...place }, { PYTHONDONTWRITEBYTECODE: '1' });
}

async function startService(
  platform: Platform,
  name: string,
  program: Omit<ServerOptions, 'cleanup' | 'variables'>,
  more: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const { cleanup, urls } = platform;
  say(`Starting ${name} at ${urls[name] ?? ''} …`);
  const variables = { ...readEnv(platform, name), ...more };
  const onLine = (line: string): void => {
    if (!cleanup.isClosed) console.error(`${name}: ${line}`);
  };
  const server = new ServerProcess(portOf(urls[name]), {
    isReady: isResponding,
    ...program,
    cleanup,
    variables,
    onLine,
  });
  cleanup.defer(() => stop(server));
  return server.start();
}

/** What does not stop in time is killed by the clean-up of its ServerProcess. */
async function stop(server: ServerProcess): Promise<void> {
  const bound = AbortSignal.timeout(STOP_TIMEOUT_MS);
  await Promise.race([server.stop(), once(bound, 'abort')]);
}

/** @returns the id of the node */
async function registerCallers(platform: Platform): Promise<string> {
  const { ADMIN_API_KEY = '' } = readEnv(platform, 'auth');
  const variables = { ADMIN_API_KEY, AUTH_URL: platform.urls.auth ?? '' };
  const node = ['--household', HOUSEHOLD, '--room', 'kitchen', '--name', 'camera'];
  const words = ['nodes', 'issue', ...node, '--config', `${platform.folder}/camera.env`];
  say(`platform-auth ${words.join(' ')}`);
  const { node_id } = registered.parse(JSON.parse(await runCli(platform, [...words, '--json'], { variables })));
  // What the web pages and the app of a family do.
  const client = new ApiClient(platform.urls.auth ?? '', ADMIN_API_KEY);
  for (const person of [USER, NEIGHBOUR]) await client.register(person);
  const addition = ['households', 'add-member', HOUSEHOLD, USER.email, '--role', 'admin'];
  say(`platform-auth ${addition.join(' ')}`);
  await runCli(platform, addition, { variables });
  await client.createHousehold(await client.logIn(NEIGHBOUR), 'next door');
  return node_id;
}

async function runCli(
  { cleanup }: Platform,
  words: readonly string[],
  more: { readonly variables?: Readonly<Record<string, string>> } = {},
): Promise<string> {
  const said = await runChild(process.execPath, [CLI, ...words], { cleanup, timeoutMs: COMMAND_TIMEOUT_MS, ...more });
  return said.trimEnd();
}

try {
  await Cleanup.around(start);
} catch (error) {
  console.error(error instanceof ExampleError ? `\n${error.message}` : error);
  process.exitCode = 1;
}
