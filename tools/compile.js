// Compiles the service, the programs around it and the tests into dist/ in a second: SWC removes the types, which
// `npm run typecheck` checks. A file that is the same as before is not written, so that programs that run are not disturbed.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { transformFile } from '@swc/core';

const ROOT = join(import.meta.dirname, '..');
const FOLDERS = ['src', 'test', 'tools', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'];
/** What others compile: packages, the clients that test:clients generates, and the programs that use them. */
const FOREIGN = /(^|\/)(node_modules|\.venv|\.run|dist)\/|^test\/clients\/(src|generated)\//;

function listFiles(folder, ending) {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.map((name) => join(folder, name)).filter((path) => path.endsWith(ending));
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

process.chdir(ROOT);
const sources = FOLDERS.flatMap((folder) => listFiles(folder, '.ts')).filter(
  (path) => !FOREIGN.test(path) && !path.endsWith('.d.ts'),
);
const outputs = new Set(await Promise.all(['ormconfig.ts', ...sources].map(compile)));
for (const path of FOLDERS.flatMap((folder) => listFiles(join('dist', folder), '.js'))) {
  if (outputs.has(path)) continue;
  rmSync(path);
  rmSync(`${path}.map`, { force: true });
}
