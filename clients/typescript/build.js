// Builds the verifier into dist/, or into a named folder that is absent or empty: one bundle with the code that it
// shares with the service, and its types. Needs the development packages of the project.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const PACKAGE = import.meta.dirname;
const OWN_DIST = join(PACKAGE, 'dist');
const DIST = process.argv[2] === undefined ? OWN_DIST : resolve(process.argv[2]);
const TYPES = join(DIST, '.types');
const require = createRequire(import.meta.url);

if (DIST === OWN_DIST) rmSync(OWN_DIST, { recursive: true, force: true });
if (existsSync(DIST) && readdirSync(DIST).length > 0) {
  console.error(`${DIST} is not empty: remove it, or name another folder.`);
  process.exit(1);
}

const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'));

// Splitting lets the adapters share the classes of the main entry, so that there is one RefusedError and one Verifier.
await build({
  entryPoints: ['index', 'express', 'fastify', 'nest'].map((name) => join(PACKAGE, `src/${name}.ts`)),
  outdir: DIST,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: Object.keys({ ...dependencies, ...peerDependencies }),
  tsconfig: join(PACKAGE, 'tsconfig.json'),
});

const tsc = join(require.resolve('typescript/package.json'), '../bin/tsc');
const flags = ['--declaration', '--emitDeclarationOnly', '--outDir', TYPES];
execFileSync(process.execPath, [tsc, '-p', join(PACKAGE, 'tsconfig.json'), ...flags], { stdio: 'inherit' });
// Leaves the declarations of the service behind, because no public type of the verifier refers to them.
copyReachable('index', 'express', 'fastify', 'nest');
rmSync(TYPES, { recursive: true });

/** Copies the declarations that the entries import, and refuses an import of anything else of the project. */
function copyReachable(...entries) {
  const from = join(TYPES, 'clients/typescript/src');
  const known = new Set(readdirSync(from));
  const pending = entries.map((name) => `${name}.d.ts`);
  const copied = new Set();
  for (let name = pending.pop(); name; name = pending.pop()) {
    if (copied.has(name)) continue;
    copied.add(name);
    const text = readFileSync(join(from, name), 'utf8');
    for (const [, path] of text.matchAll(/from '(\.[^']+)\.js'/g)) {
      const imported = `${path.replace(/^\.\//, '')}.d.ts`;
      if (!known.has(imported)) throw new Error(`${name} shows a type of ${path}, which is not part of the package`);
      pending.push(imported);
    }
    cpSync(join(from, name), join(DIST, name));
    // TypeScript's node16 and node18 need declarations of their own for `require`.
    const forRequire = text.replaceAll(/(from '\.[^']+)\.js'/g, "$1.cjs'");
    writeFileSync(join(DIST, name.replace(/\.d\.ts$/, '.d.cts')), forRequire);
  }
}
