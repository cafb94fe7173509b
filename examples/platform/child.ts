import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Cleanup } from '../../tools/cleanup.js';
import { ROOT } from './paths.js';

const run = promisify(execFile);

interface ChildOptions {
  readonly cleanup: Cleanup;
  readonly timeoutMs: number;
  readonly variables?: Readonly<Record<string, string>>;
  /** What it reads from standard input. */
  readonly input?: string;
}

/**
 * Runs a program to its end, in the root of the project.
 * @returns what it printed
 * @throws with what it printed on standard error
 */
export async function runChild(program: string, words: readonly string[], options: ChildOptions): Promise<string> {
  const { cleanup, timeoutMs, variables = {}, input = '' } = options;
  cleanup.assertOpen();
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...variables };
  const running = run(program, words, { cwd: ROOT, env, timeout: timeoutMs });
  cleanup.defer(() => running.child.kill('SIGKILL'));
  // A program that reads nothing may have ended already.
  running.child.stdin?.on('error', () => undefined).end(input);
  try {
    return (await running).stdout;
  } catch (error) {
    const { stderr = '', killed } = error as { stderr?: string; killed?: boolean };
    const cause = killed === true ? `it took longer than ${timeoutMs / 1_000} s` : stderr.trim() || String(error);
    throw new Error(`${program} ${words.slice(0, 2).join(' ')} failed: ${cause}`, { cause: error });
  }
}
