import { readFileSync } from 'node:fs';
import { InvalidEnvironmentError, toFileVariable, type Variables } from './environment.js';
import { FILE_VARIABLES, type VariableName } from './variables.js';

/** A byte order mark is a part of the secret, as it is for other programs that read the file. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads the secrets that come from files: `SECRET_KEY_FILE` names the file of `SECRET_KEY`. The messages show neither
 * the content nor the path, which may be a secret in the wrong variable.
 * @param names of the variables that the caller needs; it may have no right to read the files of the others
 * @returns the variables, with those secrets instead of the names of their files
 * @throws {InvalidEnvironmentError} when a secret is given in both ways, or its file is unreadable, empty or not text
 */
export function readSecretFiles(variables: Variables, names: readonly VariableName[] = FILE_VARIABLES): Variables {
  const result = new Map(Object.entries(variables));
  const problems: string[] = [];
  for (const name of names) {
    const fileVariable = toFileVariable(name);
    const path = variables[fileVariable];
    if (!path) continue;
    result.delete(fileVariable);
    if (variables[name]) {
      problems.push(`${name} and ${fileVariable} are both set: remove one of them`);
      continue;
    }
    const { value, problem } = readSecret(path);
    if (problem !== undefined) problems.push(`${fileVariable} names a file that ${problem}`);
    result.set(name, value);
  }
  if (problems.length > 0) throw new InvalidEnvironmentError(problems);
  return Object.fromEntries(result);
}

function readSecret(path: string): { value?: string; problem?: string } {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    return { problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})` };
  }
  const value = decode(bytes)?.replace(/\r?\n$/, '');
  if (value === undefined) return { problem: 'is not text (UTF-8 without NUL bytes)' };
  return value === '' ? { problem: 'is empty' } : { value };
}

/** @returns undefined for bytes that an environment variable cannot hold */
function decode(bytes: Buffer): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
