// Packs the verifiers for a release, with the changelog and checksums, into release/ or the named folder, which must be absent
// or empty: for TypeScript, Python, and Go (a folder that GOPROXY names). The version is that of the project's package.json.
// npm run release:clients -- [FOLDER]
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { prepareVerifierPython } from './verifier-python.js';

const TYPESCRIPT = 'clients/typescript';
const PYTHON = 'clients/python';
const GO = 'clients/go';
/** Each is a module of its own. */
const GO_MODULES = ['.', 'platformauthgrpc', 'platformauthotel'];
const CHANGELOG = 'CHANGELOG.md';
const LICENSE = 'LICENSE';
const CHECKSUMS = 'SHA256SUMS';
const BUILD_BOTH =
  'import sys; from flit_core import buildapi as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])';

interface Manifest {
  version: string;
  files: string[];
  scripts?: unknown;
}

const folder = resolve(process.argv[2] ?? 'release');
if (existsSync(folder) && readdirSync(folder).length > 0) {
  console.error(`${folder} is not empty: remove it, or name another folder.`);
  process.exit(1);
}
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
const stage = mkdtempSync(join(tmpdir(), 'platform-auth-release-'));
try {
  mkdirSync(folder, { recursive: true });
  packTypescript(join(stage, 'typescript'));
  packPython(join(stage, 'python'));
  packGo(join(stage, 'go'));
  cpSync(CHANGELOG, join(folder, CHANGELOG));
  writeFileSync(join(folder, CHECKSUMS), listFiles(folder).sort().map(describeFile).join(''));
  console.log(readFileSync(join(folder, CHECKSUMS), 'utf8').trimEnd());
} finally {
  rmSync(stage, { recursive: true, force: true });
}

function packTypescript(staged: string): void {
  run(process.execPath, [join(TYPESCRIPT, 'build.js'), join(staged, 'dist')]);
  const manifest = JSON.parse(readFileSync(join(TYPESCRIPT, 'package.json'), 'utf8')) as Manifest;
  // The scripts are left out, because they work only in the checkout.
  const published = { ...manifest, version, files: [...manifest.files, CHANGELOG], scripts: undefined };
  cpSync(join(TYPESCRIPT, 'README.md'), join(staged, 'README.md'));
  copyTexts(staged);
  writeFileSync(join(staged, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], staged);
}

function packPython(staged: string): void {
  const isPart = (path: string): boolean => !/(^|\/)(__pycache__|\.venv|tests)$/.test(path);
  cpSync(PYTHON, staged, { recursive: true, filter: isPart });
  copyTexts(staged);
  const manifest = readFileSync(join(PYTHON, 'pyproject.toml'), 'utf8')
    .replace(/^version = .*$/m, `version = "${version}"`)
    .replace(/^license-files = .*$/m, `license-files = ["${LICENSE}", "${CHANGELOG}"]`);
  writeFileSync(join(staged, 'pyproject.toml'), manifest);
  run(prepareVerifierPython(), ['-c', BUILD_BOTH, folder], staged);
  // flit makes a wheel that only its owner can read, so the user of a container could not install it.
  for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
}

function packGo(staged: string): void {
  const isPart = (path: string): boolean => !/(^|\/)(release|documents|[^/]+\.ts|[^/]+_test\.go)$/.test(path);
  cpSync(GO, staged, { recursive: true, filter: isPart });
  const modules = GO_MODULES.map((module) => join(staged, module));
  modules.forEach(copyTexts);
  run('go', ['run', '.', `v${version}`, join(folder, 'go'), ...modules], join(GO, 'release'));
}

/** @returns paths below the folder */
function listFiles(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map(({ parentPath, name }) => relative(root, join(parentPath, name)));
}

function copyTexts(staged: string): void {
  for (const name of [CHANGELOG, LICENSE]) cpSync(name, join(staged, name));
}

/** @returns a line of `sha256sum --check` */
function describeFile(name: string): string {
  const digest = createHash('sha256').update(readFileSync(join(folder, name)));
  return `${digest.digest('hex')}  ${name}\n`;
}

function run(program: string, flags: readonly string[], cwd = '.'): void {
  execFileSync(program, flags, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}
