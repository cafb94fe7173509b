// Lints the OpenAPI document, generates two clients of it and runs each against the service, and has Prism compare real
// answers with it. Also runs the verifier with NestJS 11, which only this folder installs. Prints what was checked; the last line
// counts it.
import { build } from 'esbuild';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { claimPort } from '../../tools/claim-port.js';
import { Checks } from '../../tools/checks.js';
import { startFirstRun, type FirstRun } from '../browser/service.js';
import { ProxiedCalls, startPrism } from './prism.js';

/** Started from the root of the project. */
const FOLDER = join(process.cwd(), 'test/clients');
const GENERATED = join(FOLDER, 'generated');
const DOCUMENT = join(GENERATED, 'openapi.json');
const CLIENTS = ['openapi-fetch', 'hey-api'];
/** The tools report their use, and look for updates, unless told otherwise. */
const QUIET = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', DO_NOT_TRACK: '1' };

interface Flow {
  readonly runFlow: (target: { url: string; adminKey: string; account: object; household_id: string }) => Promise<void>;
}
interface Document {
  readonly paths: Record<string, object>;
}

const checks = new Checks();

/** Runs a tool of the folder's own package, and checks that it succeeds. */
function runTool(name: string, program: string, ...words: string[]): Promise<void> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...QUIET };
  return checks.run(name, () =>
    execFileSync(join(FOLDER, 'node_modules/.bin', program), words, { cwd: FOLDER, env, stdio: 'pipe' }),
  );
}

async function generateClients(): Promise<void> {
  await runTool(
    'redocly lint (recommended, warnings are errors)',
    'redocly',
    'lint',
    '--extends=recommended-strict',
    DOCUMENT,
  );
  await runTool(
    'openapi-typescript',
    'openapi-typescript',
    DOCUMENT,
    '--output',
    join(GENERATED, 'openapi-typescript.ts'),
  );
  const heyApi = ['--input', DOCUMENT, '--output', join(GENERATED, 'hey-api'), '--client', '@hey-api/client-fetch'];
  await runTool('@hey-api/openapi-ts', 'openapi-ts', ...heyApi, '--no-log-file', '--silent');
  await runTool('all clients compile strictly', 'tsc', '--project', '.');
}

async function runFlows({ server, adminKey }: FirstRun): Promise<void> {
  for (const name of CLIENTS) {
    const account = { email: `${name}@example.org`, password: 'correct horse battery' };
    const household_id = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
    await checks.run(`${name}: registers, logs in, reads its account, validates a node`, async () => {
      const file = pathToFileURL(join(GENERATED, `dist/src/${name}.js`)).href;
      const { runFlow } = (await import(file)) as Flow;
      await runFlow({ url: server.url, adminKey, account, household_id });
    });
  }
}

/** The service is developed with a later NestJS, which treats the media type of an error in another way. */
async function runWithNest11(): Promise<void> {
  const bundle = join(GENERATED, 'verifier.js');
  await build({
    stdin: {
      contents: `export * from './nest.js'; export { Verifier } from './verifier.js';`,
      resolveDir: join(process.cwd(), 'dist/clients/typescript/src'),
    },
    outfile: bundle,
    bundle: true,
    format: 'esm',
    platform: 'node',
    external: ['@nestjs/common', 'jose', 'lru-cache'],
    logLevel: 'warning',
  });
  const { runRefusals } = (await import(pathToFileURL(join(GENERATED, 'dist/src/nest-11.js')).href)) as {
    runRefusals: (verifier: unknown) => Promise<void>;
  };
  const verifier: unknown = await import(pathToFileURL(bundle).href);
  await checks.run('NestJS 11: refusals of the verifier are problem documents, and log no warning', () =>
    runRefusals(verifier),
  );
}

await checks.around(async (cleanup) => {
  const service = await startFirstRun(cleanup);
  const document = (await (await fetch(`${service.server.url}/docs-json`)).json()) as Document;
  mkdirSync(GENERATED, { recursive: true });
  writeFileSync(DOCUMENT, JSON.stringify(document));
  await generateClients();
  await runWithNest11();
  await runFlows(service);
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const program = join(FOLDER, 'node_modules/.bin/prism');
  const proxy = await startPrism(cleanup, program, DOCUMENT, service.server.url, await claimPort());
  await new ProxiedCalls(proxy, service.adminKey, checks).callAll(operations);
});
