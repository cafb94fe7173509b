// Builds only when a source has changed since the last build: a build takes seconds, this takes milliseconds. Says on
// standard error what it does, because a first start is silent otherwise.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const PROGRAMS = ['dist/service/main.js', 'dist/service/platform-auth.js', 'dist/docs/openapi.json'];
/** The image is built without most of the folders. */
const SOURCES = [
  ...['src', 'packages', 'tools', 'test', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'],
  ...['ormconfig.ts', 'package.json', 'package-lock.json', '.swcrc'],
].filter((path) => existsSync(join(root, path)));
/** Of these folders only the programs are compiled; tests write into them. The service is made of none of them. */
const IS_BESIDE_SERVICE = /^(test|bench|chaos|fuzz|deploy|examples|clients)\//;
const IS_PROGRAM = /\.tsx?$/;
const SKIPPED = new Set(['node_modules', '.venv', '.run', 'dist', 'generated']);
/** Holds the digests of the sources that were built. */
const STAMP = join(root, 'dist/built-sources.sha256');
const MS_PER_SECOND = 1_000;

/** Of names, sizes and times, so that a source that was deleted, or replaced by an older one, counts as a change too. */
function computeDigest(paths) {
  // V8 rejects what another version of Node.js has compiled.
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
// Computed before the build: a source that changes meanwhile is built by the next call.
const digests = { service: computeDigest(ofService), beside: computeDigest(beside) };
const hasPrograms = PROGRAMS.every((path) => existsSync(join(root, path)));
const built = hasPrograms && existsSync(STAMP) ? readFileSync(STAMP, 'utf8').split('\n') : [];
const isServiceBuilt = built[0] === digests.service;
if (!isServiceBuilt || built[1] !== digests.beside) {
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
