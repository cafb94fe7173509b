import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A program that embeds a verifier and speaks the protocol of protocol.ts. */
export interface VerifierProgram {
  readonly name: 'typescript' | 'python';
  readonly command: string;
  readonly words: readonly string[];
  /** Added to its environment. */
  readonly variables: Readonly<Record<string, string>>;
}

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const PYTHON_VARIABLES = { PYTHONPATH: `${ROOT}clients/python/src`, PYTHONDONTWRITEBYTECODE: '1' };
const PYTHON_NEEDS = 'import sys; assert sys.version_info >= (3, 11); import platform_auth';
/** The interpreter of the system has the packages of the distribution, also when another one comes first on the PATH. */
const PYTHON = [process.env.PYTHON, 'python3', '/usr/bin/python3'].find((command) => command && isUsable(command));

const typescript: VerifierProgram = {
  name: 'typescript',
  command: process.execPath,
  words: [fileURLToPath(new URL('./typescript.js', import.meta.url))],
  variables: {},
};

export const verifierPrograms: readonly VerifierProgram[] = [
  typescript,
  ...(PYTHON === undefined
    ? []
    : [
        {
          name: 'python' as const,
          command: PYTHON,
          words: [`${ROOT}chaos/verifiers/python.py`],
          variables: PYTHON_VARIABLES,
        },
      ]),
];

/** Why a verifier is missing; undefined when both run. */
export const LEFT_OUT =
  PYTHON === undefined ? 'without the Python verifier: needs Python 3.11, httpx, PyJWT and cryptography' : undefined;

function isUsable(command: string): boolean {
  return spawnSync(command, ['-c', PYTHON_NEEDS], { env: { ...process.env, ...PYTHON_VARIABLES } }).status === 0;
}
