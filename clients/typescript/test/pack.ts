// Packs the verifier, installs the tarball into an empty folder, and tries it there: ES modules, CommonJS, types, and a real
// service with a PostgreSQL of its own. `npm run test:pack`; needs what `npm run build` builds.
import { execFile } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { Variables } from '../../../src/config/environment.js';
import { claimPort } from '../../../tools/claim-port.js';
import { repeatWhile } from '../../../tools/repeat-while.js';
import { ApiClient } from '../../../tools/api-client.js';
import { Checks } from '../../../tools/checks.js';
import type { Cleanup } from '../../../tools/cleanup.js';
import { makeTemporaryFolder, startPostgres } from '../../../tools/postgres.js';
import { isHealthy, ServerProcess } from '../../../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../../../tools/service.js';

/** Started from the root of the project. */
const PACKAGE = resolve('clients/typescript');
const MODULES = resolve('node_modules');
/** Development packages that the consumer's types need. The verifier's own dependencies are installed. */
const LINKED = ['typescript', '@types/node', '@types/express', 'express', 'fastify', '@nestjs/common'];
const LEASE_MS = 500;
const run = promisify(execFile);

const checks = new Checks();

/** Verifies the headers at a door, and returns what the verifier decided. */
type Verify = (door: 'App' | 'User', headers: Readonly<Record<string, string>>) => Promise<string>;

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
  import { PlatformAuthModule, RequireApp, Principal, VerifierCore } from '@platform-auth/verifier/nest';
  const auth: Verifier = Verifier.fromEnvironment({ outageGraceSeconds: 0 });
  const recipesOf = (userId: string): string[] => [userId];
  const app = express();
  app.get('/recipes', requireUser(auth), (request, response) => void response.json(recipesOf(request.auth.userId)));
  export const user: Promise<UserPrincipal> = auth.verifyUser({ headers: {} });
  export const others = [requireNode(auth), PlatformAuthModule.forRoot(auth), RequireApp(), Principal()];
  export const verifier: VerifierCore = auth;
  export const token: { readonly prototype: VerifierCore } = VerifierCore;
  // @ts-expect-error the options are typed
  export const wrong = new Verifier({ url: 1 });`;

/** How TypeScript finds packages. The last one does not read `exports`: the default of TypeScript 5 with `module: commonjs`. */
const MODULE_SYSTEMS = {
  nodenext: ['--module', 'nodenext'],
  bundler: ['--module', 'preserve', '--moduleResolution', 'bundler'],
  node10: ['--module', 'commonjs', '--moduleResolution', 'node10', '--ignoreDeprecations', '6.0'],
};

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

/** What `npm pack --json` says about a package. */
interface PackedFile {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

/** @returns the files of the package */
async function install(folder: string): Promise<string[]> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: PACKAGE });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [PackedFile];
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', type: 'module', private: true }));
  const own = ['jose', 'lru-cache'].map((name) => join(MODULES, name));
  const flags = ['--offline', '--ignore-scripts', '--install-links', '--no-audit', '--no-fund', '--legacy-peer-deps'];
  await run('npm', ['install', ...flags, join(folder, packed.filename), ...own], { cwd: folder });
  for (const name of LINKED) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(MODULES, name), link);
  }
  return packed.files.map(({ path }) => path);
}

async function tryPack(folder: string): Promise<void> {
  let files: string[] = [];
  await checks.run('packs and installs', async () => {
    files = await install(folder);
  });
  await checks.run('contains the build, the types and the README, and nothing else', () => {
    const strange = files.filter((path) => !/^(dist\/[\w-]+\.(js|d\.ts)|README\.md|package\.json)$/.test(path));
    if (strange.length > 0 || !files.includes('README.md')) throw new Error(files.join('\n'));
  });
  const node = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return run(process.execPath, [name], { cwd: folder });
  };
  const names = `{ Verifier, RefusedError }`;
  await checks.run('is imported as an ES module', () =>
    node(
      'esm.mjs',
      `import ${names} from '@platform-auth/verifier'; import { requireApp } from '@platform-auth/verifier/express'; ${TRY}`,
    ),
  );
  await checks.run('is required by CommonJS', () =>
    node(
      'cjs.cjs',
      `const ${names} = require('@platform-auth/verifier'); const { requireApp } = require('@platform-auth/verifier/express'); ${TRY}`,
    ),
  );
  await checks.run('imports the adapters of Fastify and NestJS', () =>
    node(
      'adapters.mjs',
      `await import('@platform-auth/verifier/fastify'); await import('@platform-auth/verifier/nest');`,
    ),
  );
  await checks.run('has strict types, and compiles the example of the README', async () => {
    writeFileSync(join(folder, 'consumer.ts'), CONSUMER);
    const tsc = join(MODULES, 'typescript/bin/tsc');
    const flags = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--target', 'es2022', '--types', 'node'];
    for (const modules of Object.values(MODULE_SYSTEMS))
      await run(process.execPath, [tsc, ...flags, '--esModuleInterop', ...modules, 'consumer.ts'], { cwd: folder });
  });
}

async function tryService(cleanup: Cleanup, folder: string): Promise<void> {
  const postgres = await startPostgres({ cleanup, purpose: 'verifier-pack' });
  const secrets = makeSecrets();
  const variables = {
    ...productionVariables(postgres.url(), secrets),
    REVOCATION_LEASE_MS: String(LEASE_MS),
    LOG_LEVEL: 'silent',
  };
  const options = { cleanup, script: SERVICE_SCRIPT, flags: SERVICE_FLAGS, variables, isReady: isHealthy };
  const service = await new ServerProcess(await claimPort(), options).start();
  const client = new ApiClient(service.url, secrets.ADMIN_API_KEY);
  const own = await client.mintAppCredential({ caller: 'recipes', target: 'auth' });
  const caller = await client.mintAppCredential({ caller: 'meals', target: 'recipes' });
  const user = { email: 'user@example.org', password: 'a perfectly fine passphrase' };
  await client.register(user);
  const tokens = await client.logIn(user);
  const app = { 'X-Platform-App-Id': caller.app_id, 'X-Platform-App-Key': caller.app_key };
  const bearer = { Authorization: `Bearer ${tokens.access_token}` };
  const verify = startVerifier(cleanup, folder, {
    AUTH_URL: service.url,
    AUTH_APP_ID: own.app_id,
    AUTH_APP_KEY: own.app_key,
    SERVICE_NAME: 'recipes',
    SECRET_KEY: secrets.SECRET_KEY,
  });
  const expect =
    (...[door, headers, expected]: [...Parameters<Verify>, string]) =>
    async () => {
      // A machine under load may be too slow for the verifier.
      const isUndecided = (given: string): boolean => given === 'unavailable' && given !== expected;
      const outcome = await repeatWhile(isUndecided, () => verify(door, headers), { maxCalls: 50 });
      if (outcome !== expected) throw new Error(`${outcome} instead of ${expected}`);
    };
  await checks.run('accepts an app of the real service', expect('App', app, 'accepted'));
  await checks.run('accepts a user of the real service', expect('User', bearer, 'accepted'));
  await client.logOut(tokens);
  await checks.run('refuses the user when the logout has answered', expect('User', bearer, 'invalid_access_token'));
  await client.revokeAppCredential(caller);
  await checks.run('refuses the app when its revocation has answered', expect('App', app, 'invalid_app_credentials'));
  await service.stop();
  await checks.run('answers 503 when the service is gone', expect('App', app, 'unavailable'));
}

/** @returns what verifies headers in a process that embeds the packed verifier */
function startVerifier(cleanup: Cleanup, folder: string, variables: Variables): Verify {
  writeFileSync(join(folder, 'service.mjs'), SERVICE);
  const env = { PATH: process.env.PATH, ...variables };
  const child = execFile(process.execPath, ['service.mjs'], { cwd: folder, env });
  cleanup.defer(() => child.kill('SIGKILL'));
  child.stderr?.pipe(process.stderr);
  return (door, headers) =>
    new Promise((answer, reject) => {
      child.once('exit', () => reject(new Error('The verifier exited')));
      child.stdout?.once('data', (text: Buffer) => answer(text.toString().trim()));
      child.stdin?.write(`${JSON.stringify({ door, headers })}\n`);
    });
}

await checks.around(async (cleanup) => {
  const folder = makeTemporaryFolder(cleanup, 'pack');
  await tryPack(folder);
  if (!checks.haveFailed) await tryService(cleanup, folder);
});
