// Builds only when a source is newer than the built program: a build takes seconds, this takes milliseconds.
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const PROGRAM = 'dist/src/cli/platform-auth.js';
const SOURCES = ['src', 'ormconfig.ts', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json', 'nest-cli.json'];

const readTime = (path) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
const readNewest = (path) => {
  const isFolder = statSync(join(root, path)).isDirectory();
  const inside = isFolder ? readdirSync(join(root, path), { recursive: true }).map((name) => join(path, name)) : [];
  return Math.max(...[path, ...inside].map(readTime));
};

if (Math.max(...SOURCES.map(readNewest)) >= readTime(PROGRAM)) {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  process.exitCode = status ?? 1;
}
