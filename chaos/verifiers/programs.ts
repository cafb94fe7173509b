import { fileURLToPath } from 'node:url';
import { findVerifierPython } from '../../tools/verifier-python.js';

/** A program that embeds a verifier and speaks the protocol of protocol.ts. */
export interface VerifierProgram {
  readonly name: 'typescript' | 'python';
  readonly command: string;
  readonly words: readonly string[];
  /** Added to the environment of the program. */
  readonly variables: Readonly<Record<string, string>>;
}

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

const typescript: VerifierProgram = {
  name: 'typescript',
  command: process.execPath,
  words: [fileURLToPath(new URL('./typescript.js', import.meta.url))],
  variables: {},
};

/** The first call installs the packages of the Python verifier, which takes a while. */
export function findVerifierPrograms(): readonly VerifierProgram[] {
  const found = findVerifierPython();
  if ('obstacle' in found) return [typescript];
  const words = [`${ROOT}chaos/verifiers/python.py`];
  const variables = { PYTHONDONTWRITEBYTECODE: '1' };
  return [typescript, { name: 'python', command: found.python, words, variables }];
}

/** Why a verifier is missing; undefined when both run. */
export function explainMissingVerifier(): string | undefined {
  const found = findVerifierPython();
  return 'obstacle' in found ? `without the Python verifier: ${found.obstacle}` : undefined;
}
