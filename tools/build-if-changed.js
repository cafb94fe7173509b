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
/** Of these folders only the programs are compiled; tests write into them. */
const IS_NO_SOURCE = /^(test|bench|chaos|fuzz|deploy|examples|clients)\/.*(?<!\.tsx?)$/;
const SKIPPED = new Set(['node_modules', '.venv', '.run', 'dist', 'generated']);
/** Holds the digest of the sources that were built. */
const STAMP = join(root, 'dist/built-sources.sha256');
const MS_PER_SECOND = 1_000;

/** Of names, sizes and times, so that a source that was deleted, or replaced by an older one, counts as a change too. */
function computeDigest() {
  // V8 rejects what another version of Node.js has compiled.
  const hash = createHash('sha256').update(process.version);
  for (const path of SOURCES.flatMap(listFiles).sort()) {
    if (IS_NO_SOURCE.test(path)) continue;
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

const hasPrograms = PROGRAMS.every((path) => existsSync(join(root, path)));
// Computed before the build: a source that changes meanwhile is built by the next call.
const digest = computeDigest();
if (!hasPrograms || !existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== digest) {
  console.error(`Building the service: ${hasPrograms ? 'a source has changed' : 'only the first time'} …`);
  const startedAt = performance.now();
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  process.exitCode = status ?? 1;
  if (status === 0) {
    writeFileSync(STAMP, digest);
    console.error(`Built in ${((performance.now() - startedAt) / MS_PER_SECOND).toFixed(1)} s.`);
  }
}
