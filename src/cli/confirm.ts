import type { Command } from 'commander';
import { createInterface } from 'node:readline/promises';
import { CommandFailedError } from './terminal.js';

/** Asks before something that cannot be undone; rejects when the answer is not yes. */
export type Confirm = (what: string) => Promise<void>;

/** Adds --yes, which {@link createConfirm} reads. */
export function addYes(command: Command): Command {
  return command.option('-y, --yes', 'do not ask; needed without a terminal', false);
}

/**
 * Asks on the terminal; without one, the command needs --yes.
 * @throws {CommandFailedError} when it is not confirmed
 */
export function createConfirm(command: Command, { stdin, stderr } = process): Confirm {
  return async (what) => {
    if (command.opts<{ yes: boolean }>().yes) return;
    if (!stdin.isTTY || !stderr.isTTY)
      throw new CommandFailedError(`${what} Add --yes to confirm. It was not done.`, 'confirmation_required');
    const terminal = createInterface({ input: stdin, output: stderr, terminal: false });
    const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
    const answer = await Promise.race([terminal.question(`${what} Continue? [y/N] `), closed]);
    terminal.close();
    if (!/^\s*y(es)?\s*$/i.test(answer))
      throw new CommandFailedError('Not confirmed: it was not done.', 'not_confirmed');
  };
}
