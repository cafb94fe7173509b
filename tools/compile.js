// Compiles the service, the programs around it and the tests into dist/ in a second: SWC removes the types, which
// `npm run typecheck` checks. A file that is the same as before is not written, so that programs that run are not disturbed.
import { mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { transformFile } from '@swc/core';

const ROOT = join(import.meta.dirname, '..');
const FOLDERS = ['src', 'test', 'tools', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'];
/** What others compile: packages, the clients that test:clients generates, and the programs that use them. */
const FOREIGN = /(^|\/)(node_modules|\.venv|\.run|dist)\/|^test\/clients\/(src|generated)\//;

function listFiles(folder) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
}

function writeIfChanged(path, text) {
  try {
    if (readFileSync(path, 'utf8') === text) return;
  } catch {
    mkdirSync(dirname(path), { recursive: true });
  }
  writeFileSync(path, text);
}

/** @returns the path of the compiled file */
async function compile(source) {
  const output = join('dist', source.replace(/\.ts$/, '.js'));
  const { code, map } = await transformFile(source, { sourceFileName: relative(dirname(output), source) });
  writeIfChanged(output, `${code}//# sourceMappingURL=${basename(output)}.map\n`);
  writeIfChanged(`${output}.map`, map);
  return output;
}

function isOurs(path) {
  return path.endsWith('.ts') && !path.endsWith('.d.ts') && !FOREIGN.test(path);
}

process.chdir(ROOT);
const sources = FOLDERS.flatMap(listFiles).filter(isOurs);
const outputs = new Set(await Promise.all(['ormconfig.ts', ...sources].map(compile)));
for (const path of FOLDERS.flatMap((folder) => listFiles(join('dist', folder)))) {
  if (!path.endsWith('.js') || outputs.has(path)) continue;
  rmSync(path);
  rmSync(`${path}.map`, { force: true });
}

if (process.argv.includes('--watch')) {
  for (const folder of FOLDERS) {
    watch(folder, { recursive: true }, (_, name) => {
      // A file that is gone, or that an editor has half written, is compiled at its next change.
      if (name !== null && isOurs(join(folder, name))) compile(join(folder, name)).catch(() => undefined);
    });
  }
}
