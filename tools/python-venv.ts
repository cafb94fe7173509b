import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const MIN_MINOR = 11;
const READ_VERSION = 'import ensurepip, venv, sys; print(*sys.version_info[:3], sys.executable)';
/** Retries, because the package index may be slow or fail. */
const PIP = { PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_RETRIES: '10', PIP_DEFAULT_TIMEOUT: '60' };
const VARIABLES = { ...PIP, PYTHONDONTWRITEBYTECODE: '1' };

/**
 * Installs unless another program has done so meanwhile. The lock is on the parent folder, and ends with this process.
 * The stamp is written last, so that an interrupted installation is repeated.
 */
const INSTALL = `
import json, os, pathlib, subprocess, sys
folder, interpreter, stamp, wanted, commands = json.loads(sys.argv[1])
if os.name == "posix":
    import fcntl
    fcntl.flock(os.open(os.path.dirname(folder), os.O_RDONLY), fcntl.LOCK_EX)
stamp = pathlib.Path(stamp)
if not (os.path.exists(interpreter) and stamp.exists() and stamp.read_text("utf8") == wanted):
    for command in commands:
        code = subprocess.run(command, timeout=600).returncode
        if code:
            sys.exit(code)
    stamp.write_text(wanted, "utf8")
`;

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
  const stamp = join(folder, 'installed.txt');
  const wanted = `${PYTHON} ${readVersion(PYTHON)}\n${manifest}`;
  if (existsSync(interpreter) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return interpreter;
  console.error(`Installing Python packages into ${relative('.', folder)}, only the first time …`);
  mkdirSync(dirname(folder), { recursive: true });
  const commands = [
    [PYTHON, '-m', 'venv', '--clear', folder],
    [interpreter, '-m', 'pip', 'install', '--quiet', '--no-compile', ...packages],
    // With -I Python ignores PYTHONDONTWRITEBYTECODE.
    [interpreter, '-I', '-c', `import ${imports.join()}`],
  ];
  run(PYTHON, ['-c', INSTALL, JSON.stringify([folder, interpreter, stamp, wanted, commands])]);
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
  const options = { env: { ...process.env, ...VARIABLES }, encoding: 'utf8' } as const;
  const { status, error, stdout, stderr } = spawnSync(program, words, options);
  if (status === 0) return stdout;
  const cause = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  throw new Error(`${program}: ${cause}`);
}
