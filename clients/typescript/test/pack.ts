// Packs the verifier, installs the tarball into an empty folder, and tries it there: ES modules, CommonJS, types, and a
// real service with a PostgreSQL of its own. `npm run test:pack`; needs `npm run build` first.
import { deepStrictEqual } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import type { Variables } from '../../../src/foundation/config/environment.js';
import { claimPort } from '../../../tools/claim-port.js';
import { repeatWhile } from '../../../tools/repeat-while.js';
import { ApiClient } from '../../../tools/api-client.js';
import { Checks } from '../../../tools/checks.js';
import type { Cleanup } from '../../../tools/cleanup.js';
import { IS_NIGHTLY } from '../../../tools/nightly.js';
import { makeTemporaryFolder, startPostgres, UNSAFE } from '../../../tools/postgres.js';
import { isHealthy, ServerProcess } from '../../../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../../../tools/service.js';

/** The program starts in the root of the project. */
const PACKAGE = resolve('clients/typescript');
const MODULES = resolve('node_modules');
/** Development packages that the types of the consumer need. The verifier's own dependencies are installed. */
const LINKED = ['typescript', '@types/node', '@types/express', 'express', 'fastify', '@nestjs/common'];
const LEASE_MS = 500;
const run = promisify(execFile);

const checks = new Checks();

/** @returns what the verifier decided about the headers at a door */
type Verify = (door: 'App' | 'User', headers: Readonly<Record<string, string>>) => Promise<string>;

const TRY = `
  const auth = Verifier.forTests({ serviceName: 'recipes' });
  const caller = auth.issueApp({ caller: 'meals' });
  auth.verifyApp({ headers: new Headers(caller.headers) }).then(async (principal) => {
    if (principal.caller !== 'meals') throw new Error('another caller');
    auth.revoke(caller);
    const error = await auth.verifyApp({ headers: new Headers(caller.headers) }).catch((refusal) => refusal);
    if (!(error instanceof RefusedError) || error.status !== 401) throw new Error('not refused');
    if (typeof requireApp(auth) !== 'function') throw new Error('no guard');
  });`;

/** The same program uses the package of Auth0, which declares an `auth` of every request too. */
const CONSUMER = `
  import express from 'express';
  import { Verifier, getPrincipal, type AppPrincipal, type Principal, type UserPrincipal } from '@platform-auth/verifier';
  import { optionalAuth, requireAny, requireApp, requireUser } from '@platform-auth/verifier/express';
  import { requireNode } from '@platform-auth/verifier/fastify';
  declare global { namespace Express { interface Request { auth?: { payload: { sub?: string } } } } }
  const auth: Verifier = Verifier.fromEnvironment({ outageGraceSeconds: 0, onVerdict: (door, verdict) => console.log(door, verdict) });
  const recipesOf = (userId: string): string[] => [userId];
  const app = express();
  app.get('/recipes', requireUser(auth).handle((request, response) => response.json(recipesOf(request.auth.userId))));
  app.get('/documents', requireApp(auth, { scope: 'documents:read' }), (request, response) => {
    const { caller, scopes }: AppPrincipal = getPrincipal(request, 'app');
    response.json({ caller, scopes, ofAuth0: request.auth?.payload.sub });
  });
  app.get('/any', requireAny(auth, ['user', 'app']).handle(({ auth: caller }, response) => {
    response.json(caller.door === 'user' ? caller.userId : caller.caller);
  }));
  app.get('/optional', optionalAuth(auth, ['user']).handle((request, response) => response.json(request.auth?.email)));
  // @ts-expect-error a node has no user
  app.get('/nodes', requireAny(auth, ['node']).handle((request, response) => response.json(request.auth.userId)));
  // @ts-expect-error the caller is not known where it is optional
  app.get('/none', optionalAuth(auth, ['user']).handle((request, response) => response.json(request.auth.email)));
  // @ts-expect-error a door is missing
  app.get('/empty', requireAny(auth, []));
  export const user: Promise<UserPrincipal> = auth.verifyUser({ headers: {} });
  export const hook = requireNode(auth);
  // @ts-expect-error the options are typed
  export const wrong = new Verifier({ url: 1 });`;

/** NestJS 12 is ES modules only. */
const NEST_CONSUMER = `
  import { Verifier, type AppPrincipal, type Principal, type UserPrincipal } from '@platform-auth/verifier';
  import { PlatformAuthModule, RequireApp, Principal as Caller, VerifierCore } from '@platform-auth/verifier/nest';
  const auth: Verifier = Verifier.fromEnvironment();
  class Controller {
    @RequireApp() getApp(@Caller('app') caller: AppPrincipal): string { return caller.caller; }
    // @ts-expect-error the parameter is not of this door
    @RequireApp() getUser(@Caller('app') caller: UserPrincipal): string { return caller.email; }
    @RequireApp() getAny(id: string, @Caller() caller: Principal): string { return id + caller.door; }
  }
  export const others = [PlatformAuthModule.forRoot(auth), RequireApp(), Caller(), Controller];
  export const verifier: VerifierCore = auth;
  export const token: { readonly prototype: VerifierCore } = VerifierCore;`;

/** How TypeScript finds packages, for a consumer in ES modules and one in CommonJS. */
const MODULE_SYSTEMS: readonly { readonly type: 'module' | 'commonjs'; readonly flags: readonly string[] }[] = [
  { type: 'module', flags: ['--module', 'node16'] },
  { type: 'module', flags: ['--module', 'preserve', '--moduleResolution', 'bundler'] },
  { type: 'commonjs', flags: ['--module', 'nodenext'] },
  // This resolution does not read `exports`: it is the default of TypeScript 5 with `module: commonjs`.
  { type: 'commonjs', flags: ['--module', 'commonjs', '--moduleResolution', 'node10', '--ignoreDeprecations', '6.0'] },
];

/** These resolve packages as one of the systems above does. */
const SIMILAR_SYSTEMS: typeof MODULE_SYSTEMS = [
  { type: 'module', flags: ['--module', 'node18'] },
  { type: 'module', flags: ['--module', 'node20'] },
  { type: 'module', flags: ['--module', 'nodenext'] },
  { type: 'commonjs', flags: ['--module', 'node16'] },
  { type: 'commonjs', flags: ['--module', 'node18'] },
  { type: 'commonjs', flags: ['--module', 'node20'] },
];

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

function writePackage(folder: string, type: 'module' | 'commonjs'): void {
  const path = join(folder, 'package.json');
  const written = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as object)
    : { name: 'consumer', private: true };
  writeFileSync(path, JSON.stringify({ ...written, type }));
}

/** Builds the package outside of the checkout, because other programs may run from its dist/ meanwhile. */
async function stage(staged: string): Promise<void> {
  const isSource = (path: string): boolean => !['dist', 'node_modules'].includes(basename(path));
  cpSync(PACKAGE, staged, { recursive: true, filter: isSource });
  await run(process.execPath, [join(PACKAGE, 'build.js'), join(staged, 'dist')]);
}

/** @returns the files of the package */
async function install(folder: string, staged: string): Promise<string[]> {
  const words = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', words, { cwd: staged });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [PackedFile];
  writePackage(folder, 'module');
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

/**
 * Compiles as tsc does, but of the declarations only those in the folder are checked, which are the verifier's and those of its
 * own dependencies: those of the linked packages take three quarters of the time.
 * @returns what is wrong
 */
function compile(folder: string, files: readonly string[], flags: readonly string[]): string[] {
  const { options, errors } = ts.parseCommandLine(flags);
  const host: ts.CompilerHost = { ...ts.createCompilerHost(options), getCurrentDirectory: () => folder };
  const paths = files.map((name) => join(folder, name));
  const program = ts.createProgram({ rootNames: paths, options, host, configFileParsingDiagnostics: errors });
  const own = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(`${folder}/`));
  const found = [
    ...program.getConfigFileParsingDiagnostics(),
    ...program.getOptionsDiagnostics(),
    ...own.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  ];
  return found.map((diagnostic) => ts.formatDiagnostic(diagnostic, host));
}

async function tryPack(folder: string): Promise<void> {
  const staged = join(folder, 'package');
  let files: string[] = [];
  await checks.run('packs and installs', async () => {
    await stage(staged);
    files = await install(folder, staged);
  });
  await checks.run('contains the build, the types and the README, and nothing else', () => {
    const strange = files.filter((path) => !/^(dist\/[\w-]+\.(js|d\.c?ts)|README\.md|package\.json)$/.test(path));
    if (strange.length > 0 || !files.includes('README.md')) throw new Error(files.join('\n'));
  });
  await checks.run('has no import.meta, which ts-jest cannot compile to CommonJS', () => {
    const built = files.filter((path) => path.endsWith('.js')).map((path) => join(staged, path));
    const strange = built.filter((path) => readFileSync(path, 'utf8').includes('import.meta'));
    if (built.length === 0 || strange.length > 0) throw new Error(strange.join('\n'));
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
  await checks.run('has strict types, and compiles the example of the README', () => {
    writeFileSync(join(folder, 'consumer.ts'), CONSUMER);
    writeFileSync(join(folder, 'nest-consumer.ts'), NEST_CONSUMER);
    const flags = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--target', 'es2022', '--types', 'node'];
    for (const { type, flags: modules } of [...MODULE_SYSTEMS, ...(IS_NIGHTLY ? SIMILAR_SYSTEMS : [])]) {
      writePackage(folder, type);
      const consumers = type === 'module' ? ['consumer.ts', 'nest-consumer.ts'] : ['consumer.ts'];
      const words = [...flags, '--esModuleInterop', '--experimentalDecorators', ...modules];
      deepStrictEqual(compile(folder, consumers, words), [], `${type} ${modules.join(' ')}`);
    }
    writePackage(folder, 'module');
  });
}

async function tryService(cleanup: Cleanup, folder: string): Promise<void> {
  const postgres = await startPostgres({ cleanup, purpose: 'verifier-pack', settings: UNSAFE });
  const secrets = makeSecrets();
  const variables = {
    ...productionVariables(postgres.url(), secrets),
    REVOCATION_LEASE_MS: String(LEASE_MS),
    LOG_LEVEL: 'silent',
  };
  const options = { cleanup, script: SERVICE_SCRIPT, flags: SERVICE_FLAGS, variables, isReady: isHealthy };
  const service = await new ServerProcess(await claimPort(), options).start();
  const client = new ApiClient(service.url, secrets.ADMIN_API_KEY);
  const own = await client.issueAppCredential({ caller: 'recipes', target: 'auth' });
  const caller = await client.issueAppCredential({ caller: 'meals', target: 'recipes' });
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

/** @returns a function that verifies headers in a process that embeds the packed verifier */
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
