// Builds only when a source has changed since the last build: the service, and with --verifier also the package of
// clients/typescript. It reports a build on standard error, because a silent first start would seem to hang.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const PROGRAMS = ['dist/service/main.js', 'dist/service/platform-auth.js', 'dist/docs/openapi.json'];
/** A missing folder is skipped, because the image is built without most of them. */
const SOURCES = [
  ...['src', 'packages', 'tools', 'test', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'],
  ...['ormconfig.ts', 'package.json', 'package-lock.json', '.swcrc'],
].filter((path) => existsSync(join(root, path)));
/** The service contains nothing of these folders, whose programs are only compiled. */
const IS_BESIDE_SERVICE = /^(test|bench|chaos|fuzz|deploy|examples|clients)\//;
const IS_PROGRAM = /\.tsx?$/;
const SKIPPED = new Set(['node_modules', '.venv', '.run', 'dist', 'generated']);
/** Stores the digests of the sources that were built. */
const STAMP = join(root, 'dist/built-sources.sha256');
const MS_PER_SECOND = 1_000;
const VERIFIER = 'clients/typescript';
const IS_OF_VERIFIER = /^(clients\/typescript\/(src\/|(build\.js|package\.json|tsconfig\.json)$)|packages\/)/;
const VERIFIER_STAMP = join(root, 'dist/built-verifier.sha256');

/** Digests names, sizes and times, so that a deleted source, or one replaced by an older file, counts as a change too. */
function computeDigest(paths) {
  // V8 rejects code that another version of Node.js has compiled.
  const hash = createHash('sha256').update(process.version);
  for (const path of paths) {
    const { size, mtimeMs } = statSync(join(root, path));
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

function listFiles(path) {
  if (!statSync(join(root, path)).isDirectory()) return [path];
  const names = readdirSync(join(root, path)).filter((name) => !SKIPPED.has(name));
  return names.flatMap((name) => listFiles(join(path, name)));
}

const paths = SOURCES.flatMap(listFiles).sort();
const beside = paths.filter((path) => IS_BESIDE_SERVICE.test(path) && IS_PROGRAM.test(path));
const ofService = paths.filter((path) => !IS_BESIDE_SERVICE.test(path));
// Computed before the build, so that the next call builds a source that changes meanwhile.
const digests = { service: computeDigest(ofService), beside: computeDigest(beside) };
const hasPrograms = PROGRAMS.every((path) => existsSync(join(root, path)));
const built = hasPrograms && existsSync(STAMP) ? readFileSync(STAMP, 'utf8').split('\n') : [];
const isServiceBuilt = built[0] === digests.service;
if (!isServiceBuilt || built[1] !== digests.beside) {
  if (!existsSync(join(root, 'node_modules'))) {
    console.error('The packages are not installed. Type: npm ci');
    process.exit(1);
  }
  console.error(`Building the service: ${hasPrograms ? 'a source has changed' : 'only the first time'} …`);
  const startedAt = performance.now();
  const { status } = spawnSync('npm', ['run', '--silent', 'build', ...(isServiceBuilt ? ['--', '--beside'] : [])], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  process.exitCode = status ?? 1;
  if (status === 0) {
    writeFileSync(STAMP, `${digests.service}\n${digests.beside}`);
    console.error(`Built in ${((performance.now() - startedAt) / MS_PER_SECOND).toFixed(1)} s.`);
  }
}
if (process.argv.includes('--verifier') && !process.exitCode) buildVerifier();

function buildVerifier() {
  const digest = computeDigest(paths.filter((path) => IS_OF_VERIFIER.test(path)));
  const isBuilt = existsSync(join(root, VERIFIER, 'dist/index.js')) && existsSync(VERIFIER_STAMP);
  if (isBuilt && readFileSync(VERIFIER_STAMP, 'utf8') === digest) return;
  console.error('Building the verifier for TypeScript …');
  // Removed before the build, so that the next call builds again after an interrupted one.
  rmSync(VERIFIER_STAMP, { force: true });
  const { status } = spawnSync(process.execPath, [`${VERIFIER}/build.js`], { cwd: root, stdio: ['ignore', 2, 2] });
  process.exitCode = status ?? 1;
  if (status === 0) writeFileSync(VERIFIER_STAMP, digest);
}
