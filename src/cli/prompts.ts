import { createInterface } from 'node:readline';
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

type Input = Pick<NodeJS.ReadStream, 'isTTY' | 'setRawMode'> & NodeJS.ReadableStream;
export interface Terminal {
  readonly stdin: Input;
  readonly stderr: NodeJS.WritableStream;
}

const [INTERRUPT, END, BACKSPACE, DELETE] = ['\u0003', '\u0004', '\b', '\u007f'];

/**
 * Reads a new password: on a terminal twice and without echo, otherwise the first line of standard input. Never from a
 * parameter, which other users of the machine can see.
 * @throws {CommandFailedError} when it is empty, or typed differently the second time
 */
export async function readNewPassword({ stdin, stderr }: Terminal = process): Promise<string> {
  const password = stdin.isTTY
    ? await ask(stdin, stderr, 'Password: ')
    : ((await text(stdin as NodeJS.ReadStream)).split(/\r?\n/)[0] ?? '');
  if (password === '')
    throw new CommandFailedError('The password is empty. Type it, or send it to standard input.', 'no_password');
  if (stdin.isTTY && (await ask(stdin, stderr, 'Again: ')) !== password)
    throw new CommandFailedError('The two passwords differ. Nothing was changed.', 'passwords_differ');
  return password;
}

async function ask(stdin: Input, stderr: NodeJS.WritableStream, prompt: string): Promise<string> {
  stderr.write(prompt);
  stdin.setRawMode(true);
  try {
    return await readTyped(stdin);
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write('\n');
  }
}

/** In raw mode the terminal neither echoes nor edits: the keys that end or correct the input are handled here. */
async function readTyped(stdin: Input): Promise<string> {
  return new Promise((resolve, reject) => {
    let typed: string[] = [];
    const finish = (end: () => void): void => {
      stdin.off('data', take).off('end', close);
      end();
    };
    const interrupt = new CommandFailedError('Interrupted. Nothing was changed.', 'interrupted');
    const close = (): void => finish(() => reject(interrupt));
    const take = (chunk: Buffer | string): void => {
      for (const key of String(chunk)) {
        if (key === INTERRUPT || key === END) {
          close();
          return;
        }
        if (key === '\r' || key === '\n') {
          finish(() => resolve(typed.join('')));
          return;
        }
        typed = key === BACKSPACE || key === DELETE ? typed.slice(0, -1) : [...typed, key];
      }
    };
    stdin.on('data', take).once('end', close).resume();
  });
}
