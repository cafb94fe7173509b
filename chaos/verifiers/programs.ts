import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { findVerifierPython } from '../../tools/verifier-python.js';

/** A program that embeds a verifier and speaks the protocol of protocol.ts, and one that reads events into a ledger. */
export interface VerifierProgram {
  readonly name: 'typescript' | 'python' | 'go';
  readonly command: string;
  readonly words: readonly string[];
  /** The words of the one that reads events; the path of its ledger follows. */
  readonly consumer: readonly string[];
  /** Added to the environment of the program. */
  readonly variables: Readonly<Record<string, string>>;
}

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

const typescript: VerifierProgram = {
  name: 'typescript',
  command: process.execPath,
  words: [fileURLToPath(new URL('./typescript.js', import.meta.url))],
  consumer: [fileURLToPath(new URL('./consumer.js', import.meta.url))],
  variables: {},
};

const GO_SOURCES = `${ROOT}chaos/verifiers/golang`;
const GO_PROGRAM = `${ROOT}node_modules/.cache/chaos-verifier-go`;

interface Found {
  readonly programs: readonly VerifierProgram[];
  /** Why a verifier is missing. */
  readonly obstacles: readonly string[];
}

let found: Found | undefined;

/** The first call installs the packages of the Python verifier and builds the one in Go, which takes a while. */
export function findVerifierPrograms(): readonly VerifierProgram[] {
  return (found ??= prepare()).programs;
}

/** Why a verifier is missing; undefined when all run. */
export function explainMissingVerifier(): string | undefined {
  const { obstacles } = (found ??= prepare());
  return obstacles.length > 0 ? obstacles.join('; ') : undefined;
}

function prepare(): Found {
  const others = [preparePython(), prepareGo()];
  return {
    programs: [typescript, ...others.filter((one) => typeof one !== 'string')],
    obstacles: others.filter((one) => typeof one === 'string'),
  };
}

function preparePython(): VerifierProgram | string {
  const python = findVerifierPython();
  if ('obstacle' in python) return `without the Python verifier: ${python.obstacle}`;
  const [words, consumer] = [[`${ROOT}chaos/verifiers/python.py`], [`${ROOT}chaos/verifiers/consumer.py`]];
  return { name: 'python', command: python.python, words, consumer, variables: { PYTHONDONTWRITEBYTECODE: '1' } };
}

function prepareGo(): VerifierProgram | string {
  try {
    execFileSync('go', ['build', '-o', GO_PROGRAM, '.'], { cwd: GO_SOURCES, stdio: 'pipe' });
  } catch (error) {
    return `without the Go verifier: ${error instanceof Error ? error.message : String(error)}`;
  }
  return { name: 'go', command: GO_PROGRAM, words: [], consumer: [], variables: {} };
}
