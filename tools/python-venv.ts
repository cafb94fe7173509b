import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const TIMEOUT_MS = 600_000;
const MIN_MINOR = 11;
const READ_VERSION = 'import ensurepip, venv, sys; print(*sys.version_info[:3], sys.executable)';
/** Retries, because the package index may be slow or fail. */
const PIP = { PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_RETRIES: '10', PIP_DEFAULT_TIMEOUT: '60' };
const VARIABLES = { ...PIP, PYTHONDONTWRITEBYTECODE: '1' };

interface Venv {
  readonly folder: string;
  /** The parameters of `pip install`. */
  readonly packages: readonly string[];
  /** Describes the packages: they are installed again when this text has changed. */
  readonly manifest: string;
  /** Modules that the programs import: their bytecode is stored. pip would compile every module, which takes most of its CPU. */
  readonly imports: readonly string[];
}

/**
 * @returns the Python of a virtual environment, which the interpreter that PYTHON names makes at the first use
 * @throws when there is no Python 3.11 with venv, or the packages cannot be installed
 */
export function prepareVenv({ folder, packages, manifest, imports }: Venv): string {
  const { PYTHON = 'python3' } = process.env;
  const interpreter = join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  // Written last, so that an interrupted installation is repeated.
  const stamp = join(folder, 'installed.txt');
  const wanted = `${PYTHON} ${readVersion(PYTHON)}\n${manifest}`;
  if (existsSync(interpreter) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return interpreter;
  console.error(`Installing Python packages into ${relative('.', folder)}, only the first time …`);
  run(PYTHON, ['-m', 'venv', '--clear', folder]);
  run(interpreter, ['-m', 'pip', 'install', '--quiet', '--no-compile', ...packages]);
  // With -I Python ignores PYTHONDONTWRITEBYTECODE.
  run(interpreter, ['-I', '-c', `import ${imports.join()}`]);
  writeFileSync(stamp, wanted);
  return interpreter;
}

function readVersion(python: string): string {
  let version: string;
  try {
    version = run(python, ['-c', READ_VERSION]).trim();
  } catch (error) {
    throw new Error(`${python} is missing, or lacks its module venv.`, { cause: error });
  }
  const [major, minor = 0] = version.split(' ').map(Number);
  if (major === 3 && minor >= MIN_MINOR) return version;
  throw new Error(`${python} is Python ${major}.${minor}; 3.${MIN_MINOR} or newer is needed.`);
}

/** @returns what the program printed */
function run(program: string, words: readonly string[]): string {
  const options = { env: { ...process.env, ...VARIABLES }, encoding: 'utf8', timeout: TIMEOUT_MS } as const;
  const { status, error, stdout, stderr } = spawnSync(program, words, options);
  if (status === 0) return stdout;
  const cause = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  throw new Error(`${program} ${words.slice(0, 3).join(' ')}: ${cause}`);
}
