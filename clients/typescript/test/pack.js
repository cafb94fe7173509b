// Packs the verifier, installs the tarball into an empty folder, and tries it there: ES modules, CommonJS, types, and a real
// service with a PostgreSQL of its own. `npm run test:pack`; needs what `npm run build:tools` builds.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../dist/src/embedded-postgres/free-port.js';
import { Cleanup } from '../../../dist/tools/cleanup.js';
import { startPostgres } from '../../../dist/tools/postgres.js';
import { isHealthy, ServerProcess } from '../../../dist/tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../../../dist/tools/service.js';

const PACKAGE = join(import.meta.dirname, '..');
const MODULES = join(PACKAGE, '../../node_modules');
/** Development packages that the consumer's types need. The verifier's own dependencies are installed. */
const LINKED = ['typescript', '@types/node', '@types/express', 'express', 'fastify', '@nestjs/common'];
const LEASE_MS = 500;
const run = promisify(execFile);

let passed = 0;
let failed = 0;

async function check(what, task) {
  try {
    await task();
    passed += 1;
    console.log(`ok      ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${what}\n${error.stderr || error.stdout || error.stack}`);
  }
}

const TRY = `
  const auth = Verifier.forTests({ serviceName: 'recipes' });
  const caller = auth.mintApp({ caller: 'meals' });
  auth.verifyApp({ headers: new Headers(caller.headers) }).then(async (principal) => {
    if (principal.caller !== 'meals') throw new Error('another caller');
    auth.revoke(caller);
    const error = await auth.verifyApp({ headers: new Headers(caller.headers) }).catch((refusal) => refusal);
    if (!(error instanceof RefusedError) || error.status !== 401) throw new Error('not refused');
    if (typeof requireApp(auth) !== 'function') throw new Error('no guard');
  });`;

const CONSUMER = `
  import express from 'express';
  import { Verifier, type UserPrincipal } from '@platform-auth/verifier';
  import { requireUser } from '@platform-auth/verifier/express';
  import { requireNode } from '@platform-auth/verifier/fastify';
  import { PlatformAuthModule, RequireApp, Principal } from '@platform-auth/verifier/nest';
  const auth: Verifier = Verifier.fromEnvironment({ outageGraceSeconds: 0 });
  const recipesOf = (userId: string): string[] => [userId];
  const app = express();
  app.get('/recipes', requireUser(auth), (request, response) => void response.json(recipesOf(request.auth.userId)));
  export const user: Promise<UserPrincipal> = auth.verifyUser({ headers: {} });
  export const others = [requireNode(auth), PlatformAuthModule.forRoot(auth), RequireApp(), Principal()];
  // @ts-expect-error the options are typed
  export const wrong = new Verifier({ url: 1 });`;

/** The program of a service that embeds the packed verifier; it verifies what it reads. */
const SERVICE = `
  import { createInterface } from 'node:readline';
  import { Verifier } from '@platform-auth/verifier';
  const auth = Verifier.fromEnvironment();
  for await (const line of createInterface({ input: process.stdin })) {
    const { door, headers } = JSON.parse(line);
    const outcome = await auth['verify' + door]({ headers: new Headers(headers) }).then(() => 'accepted', (error) => error.code);
    console.log(outcome);
  }
  auth.close();`;

async function install(folder) {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: PACKAGE });
  const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('[')));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', type: 'module', private: true }));
  const own = ['jose', 'lru-cache'].map((name) => join(MODULES, name));
  const flags = ['--offline', '--ignore-scripts', '--install-links', '--no-audit', '--no-fund', '--legacy-peer-deps'];
  await run('npm', ['install', ...flags, join(folder, filename), ...own], { cwd: folder });
  for (const name of LINKED) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(MODULES, name), link);
  }
  return files.map(({ path }) => path);
}

async function tryPack(folder) {
  let files = [];
  await check('packs and installs', async () => {
    files = await install(folder);
  });
  await check('contains the build, the types and the README, and nothing else', () => {
    const strange = files.filter((path) => !/^(dist\/[\w-]+\.(js|d\.ts)|README\.md|package\.json)$/.test(path));
    if (strange.length > 0 || !files.includes('README.md')) throw new Error(files.join('\n'));
  });
  const node = (name, text) => {
    writeFileSync(join(folder, name), text);
    return run(process.execPath, [name], { cwd: folder });
  };
  const names = `{ Verifier, RefusedError }`;
  await check('is imported as an ES module', () =>
    node(
      'esm.mjs',
      `import ${names} from '@platform-auth/verifier'; import { requireApp } from '@platform-auth/verifier/express'; ${TRY}`,
    ),
  );
  await check('is required by CommonJS', () =>
    node(
      'cjs.cjs',
      `const ${names} = require('@platform-auth/verifier'); const { requireApp } = require('@platform-auth/verifier/express'); ${TRY}`,
    ),
  );
  await check('imports the adapters of Fastify and NestJS', () =>
    node(
      'adapters.mjs',
      `await import('@platform-auth/verifier/fastify'); await import('@platform-auth/verifier/nest');`,
    ),
  );
  await check('has strict types, and compiles the example of the README', async () => {
    writeFileSync(join(folder, 'consumer.ts'), CONSUMER);
    const tsc = join(MODULES, 'typescript/bin/tsc');
    const flags = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    await run(process.execPath, [tsc, ...flags, '--exactOptionalPropertyTypes', 'consumer.ts'], { cwd: folder });
  });
}

async function tryService(cleanup, folder) {
  const postgres = await startPostgres({ cleanup, purpose: 'verifier-pack' });
  const secrets = makeSecrets();
  const variables = {
    ...productionVariables(postgres.url(), secrets),
    REVOCATION_LEASE_MS: String(LEASE_MS),
    LOG_LEVEL: 'silent',
  };
  const options = { cleanup, script: SERVICE_SCRIPT, flags: SERVICE_FLAGS, variables, isReady: isHealthy };
  const service = await new ServerProcess(await freePort(), options).start();
  const post = async (path, body, method = 'POST') => {
    const headers = { 'Content-Type': 'application/json', 'X-Admin-Key': secrets.ADMIN_API_KEY };
    const response = await fetch(service.url + path, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.status === 204 ? undefined : response.json();
  };
  const admin = '/api/v0/admin';
  const own = await post(`${admin}/app-credentials`, { caller: 'recipes', target: 'auth' });
  const caller = await post(`${admin}/app-credentials`, { caller: 'meals', target: 'recipes' });
  const user = { email: 'user@example.org', password: 'a perfectly fine passphrase' };
  await post('/api/v0/auth/register', user);
  const tokens = await post('/api/v0/auth/login', user);
  const app = { 'X-Platform-App-Id': caller.app_id, 'X-Platform-App-Key': caller.app_key };
  const bearer = { Authorization: `Bearer ${tokens.access_token}` };
  const verify = startVerifier(cleanup, folder, {
    AUTH_URL: service.url,
    AUTH_APP_ID: own.app_id,
    AUTH_APP_KEY: own.app_key,
    SERVICE_NAME: 'recipes',
    SECRET_KEY: secrets.SECRET_KEY,
  });
  const expect = (door, headers, expected) => async () => {
    const outcome = await verify(door, headers);
    if (outcome !== expected) throw new Error(`${outcome} instead of ${expected}`);
  };
  await check('accepts an app of the real service', expect('App', app, 'accepted'));
  await check('accepts a user of the real service', expect('User', bearer, 'accepted'));
  await post('/api/v0/auth/logout', { refresh_token: tokens.refresh_token });
  await check('refuses the user when the logout has answered', expect('User', bearer, 'invalid_access_token'));
  await post(`${admin}/app-credentials/${caller.app_id}`, undefined, 'DELETE');
  await check('refuses the app when its revocation has answered', expect('App', app, 'invalid_app_credentials'));
  await service.stop();
  await check('answers 503 when the service is gone', expect('App', app, 'unavailable'));
}

/** @returns what verifies headers in a process that embeds the packed verifier */
function startVerifier(cleanup, folder, variables) {
  writeFileSync(join(folder, 'service.mjs'), SERVICE);
  const env = { PATH: process.env.PATH, ...variables };
  const child = execFile(process.execPath, ['service.mjs'], { cwd: folder, env });
  cleanup.defer(() => child.kill('SIGKILL'));
  child.stderr.pipe(process.stderr);
  return (door, headers) =>
    new Promise((resolve, reject) => {
      child.once('exit', () => reject(new Error('The verifier exited')));
      child.stdout.once('data', (text) => resolve(String(text).trim()));
      child.stdin.write(`${JSON.stringify({ door, headers })}\n`);
    });
}

await Cleanup.around(async (cleanup) => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-pack-'));
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  await tryPack(folder);
  if (failed === 0) await check('works before a real service', () => tryService(cleanup, folder));
});
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
