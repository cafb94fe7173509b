import type { Command } from 'commander';
import { createInterface } from 'node:readline';
import { CommandFailedError } from './terminal.js';

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
