import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { CommandFailedError } from './output.js';

/** Asks before something that cannot be undone; rejects when the answer is not yes. */
export type Confirm = (what: string | (() => Promise<string>)) => Promise<void>;

/** Adds --yes, which {@link createConfirm} reads. */
export function addYes(command: Command): Command {
  return command.option('-y, --yes', 'do not ask; needed without a terminal', false);
}

/**
 * Asks on the terminal; without one, the command needs --yes.
 * @throws {CommandFailedError} when it is not confirmed
 */
export function createConfirm(command: Command, { stdin, stderr } = process): Confirm {
  return async (describe) => {
    if (command.opts<{ yes: boolean }>().yes) return;
    const what = typeof describe === 'string' ? describe : await describe();
    if (!stdin.isTTY || !stderr.isTTY)
      throw new CommandFailedError(`${what} Add --yes to confirm. It was not done.`, 'confirmation_required');
    stderr.write(`${what} Continue? [y/N] `);
    const answer = await readLine(stdin);
    if (!/^\s*y(es)?\s*$/i.test(answer))
      throw new CommandFailedError('Not confirmed: it was not done.', 'not_confirmed');
  };
}

/** @returns empty when the input has ended */
async function readLine(input: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input })) return line;
  return '';
}

export interface Terminal {
  readonly stdin: Pick<NodeJS.ReadStream, 'isTTY'> & NodeJS.ReadableStream;
  readonly stderr: NodeJS.WritableStream;
}

/**
 * Reads a new password: on a terminal twice and without echo, otherwise the first line of standard input. Never from a
 * parameter, which other users of the machine can see.
 * @throws {CommandFailedError} when it is empty, or typed differently the second time
 */
export async function readNewPassword(terminal: Terminal = process): Promise<string> {
  const { stdin } = terminal;
  const password = stdin.isTTY
    ? await askHidden(terminal, 'Password: ')
    : ((await text(stdin as NodeJS.ReadStream)).split(/\r?\n/)[0] ?? '');
  if (password === '')
    throw new CommandFailedError('The password is empty. Type it, or send it to standard input.', 'no_password');
  if (stdin.isTTY && (await askHidden(terminal, 'Again: ')) !== password)
    throw new CommandFailedError('The two passwords differ. Nothing was changed.', 'passwords_differ');
  return password;
}

/**
 * readline edits the line, so that arrow keys and Ctrl-U are not part of it, and decodes characters that arrive in parts.
 * Its output is discarded: it would show what is typed.
 */
async function askHidden({ stdin, stderr }: Terminal, prompt: string): Promise<string> {
  stderr.write(prompt);
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const line = createInterface({ input: stdin, output, terminal: true, historySize: 0 });
  try {
    return await new Promise((resolve, reject) => {
      const interrupt = (): void => reject(new CommandFailedError('Interrupted. Nothing was changed.', 'interrupted'));
      line.once('line', resolve).once('close', interrupt);
    });
  } finally {
    line.close();
    stderr.write('\n');
  }
}
