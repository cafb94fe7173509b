import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../../clients/python', import.meta.url));
const VENV = join(PROJECT, '.venv');
const INTERPRETER = join(VENV, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
/** What was installed; written last. */
const STAMP = join(VENV, 'installed.txt');
const READ_VERSION = 'import ensurepip, venv, sys; print(sys.executable, sys.version)';
const VARIABLES = { PIP_DISABLE_PIP_VERSION_CHECK: '1', PYTHONDONTWRITEBYTECODE: '1' };

export type VerifierPython = { readonly python: string } | { readonly obstacle: string };

let found: VerifierPython | undefined;

/** Tries {@link prepareVerifierPython} once. */
export function findVerifierPython(): VerifierPython {
  return (found ??= tryToPrepare());
}

function tryToPrepare(): VerifierPython {
  try {
    return { python: prepareVerifierPython() };
  } catch (error) {
    return { obstacle: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * The Python of a virtual environment with the verifier of clients/python, the versions that its pyproject.toml demands, and
 * the packages of its tests. Made by the interpreter that PYTHON names, at the first use, and kept.
 * @throws when there is no Python with venv, or the packages cannot be installed
 */
export function prepareVerifierPython(): string {
  const { PYTHON = 'python3' } = process.env;
  const version = run(PYTHON, ['-c', READ_VERSION]);
  const wanted = `${PYTHON} ${version}\n${readFileSync(join(PROJECT, 'pyproject.toml'), 'utf8')}`;
  if (existsSync(INTERPRETER) && existsSync(STAMP) && readFileSync(STAMP, 'utf8') === wanted) return INTERPRETER;
  console.error('Installing the Python verifier into clients/python/.venv, only the first time …');
  run(PYTHON, ['-m', 'venv', '--clear', VENV]);
  run(INTERPRETER, ['-m', 'pip', 'install', '--quiet', '--editable', `${PROJECT}[test]`]);
  writeFileSync(STAMP, wanted);
  return INTERPRETER;
}

/** @returns what the program printed */
function run(program: string, words: readonly string[]): string {
  const options = { env: { ...process.env, ...VARIABLES }, encoding: 'utf8' } as const;
  const { status, error, stdout, stderr } = spawnSync(program, words, options);
  if (status === 0) return stdout;
  const cause = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  throw new Error(`${program} ${words.slice(0, 3).join(' ')}: ${cause}`);
}
