// Tests the Python verifier: makes its virtual environment unless it is there, starts a PostgreSQL for the end-to-end tests, and
// runs pytest. The last line counts. `npm run test:python` builds the service before.
//   PYTHON=python3.13 npm run test:python -- -k conformance      what follows -- is for pytest
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder, startPostgres, UNSAFE } from '../../tools/postgres.js';
import { prepareVerifierPython } from '../../tools/verifier-python.js';

/** Started from the root of the project. */
const PROJECT = resolve('clients/python');
const checks = new Checks();

/** @throws when the program fails */
function run(program: string, flags: readonly string[], variables = {}): void {
  const env = { ...process.env, PIP_DISABLE_PIP_VERSION_CHECK: '1', PYTHONDONTWRITEBYTECODE: '1', ...variables };
  const { status } = spawnSync(program, flags, { cwd: PROJECT, env, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${program} ${flags.slice(0, 3).join(' ')} failed`);
}

/** @returns what pytest wrote about its tests; a skipped one counts as failed */
function readCounts(file: string): { passed: number; failed: number } {
  const [head = ''] = /<testsuite [^>]*>/.exec(readFileSync(file, 'utf8')) ?? [];
  const read = (name: string): number => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const failed = read('failures') + read('errors') + read('skipped');
  return { passed: read('tests') - failed, failed };
}

async function runPytest(cleanup: Cleanup): Promise<void> {
  const folder = makeTemporaryFolder(cleanup, 'python');
  const python = prepareVerifierPython();
  const server = await startPostgres({ cleanup, purpose: 'python-database', settings: UNSAFE });
  const report = join(folder, 'report.xml');
  const flags = ['--basetemp', join(folder, 'pytest'), '--junitxml', report, ...process.argv.slice(2)];
  try {
    run(python, ['-m', 'pytest', '-q', ...flags], { DATABASE_URL: server.url() });
  } finally {
    checks.add(readCounts(report));
  }
}

await checks.around(runPytest);
