// Tests the Python verifier: makes a virtual environment in a temporary folder, starts a PostgreSQL for the end-to-end tests,
// and runs pytest. The last line counts. `npm run test:python` builds the service before.
//   PYTHON=python3.13 npm run test:python -- -k conformance      what follows -- is for pytest
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cleanup } from '../../dist/tools/cleanup.js';
import { startPostgres } from '../../dist/tools/postgres.js';

const { PYTHON = 'python3' } = process.env;
const project = import.meta.dirname;

function run(program, flags, variables = {}) {
  const env = { ...process.env, PIP_DISABLE_PIP_VERSION_CHECK: '1', PYTHONDONTWRITEBYTECODE: '1', ...variables };
  return spawnSync(program, flags, { cwd: project, env, stdio: 'inherit' }).status === 0;
}

/** @returns what pytest wrote about its tests; a skipped one counts as failed */
function readCounts(file) {
  const [head = ''] = /<testsuite [^>]*>/.exec(readFileSync(file, 'utf8')) ?? [];
  const read = (name) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const failed = read('failures') + read('errors') + read('skipped');
  return { passed: read('tests') - failed, failed };
}

async function test(cleanup) {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-python-'));
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  const python = join(folder, 'venv/bin/python');
  const isInstalled =
    run(PYTHON, ['-m', 'venv', join(folder, 'venv')]) &&
    run(python, ['-m', 'pip', 'install', '--quiet', '--editable', '.[test]']);
  if (!isInstalled) return { passed: 0, failed: 1 };
  const server = await startPostgres({ cleanup, purpose: 'python-database', settings: { fsync: 'off' } });
  const report = join(folder, 'report.xml');
  const flags = ['--basetemp', join(folder, 'pytest'), '--junitxml', report, ...process.argv.slice(2)];
  const isGood = run(python, ['-m', 'pytest', '-q', ...flags], { DATABASE_URL: server.url() });
  const counts = readCounts(report);
  return { ...counts, failed: isGood ? counts.failed : Math.max(1, counts.failed) };
}

let counts = { passed: 0, failed: 1 };
try {
  await Cleanup.around(async (cleanup) => {
    counts = await test(cleanup);
  });
} catch (error) {
  console.error(error);
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;
