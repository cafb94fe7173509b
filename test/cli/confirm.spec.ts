import { Command } from 'commander';
import { PassThrough } from 'node:stream';
import { addYes, createConfirm } from '../../src/cli/prompts.js';

const QUESTION = 'This would end the world.';

/** What is asked on a terminal, or without one. @param answer undefined: the input ends */
const ask = async (isTTY: boolean, parameters: string[], answer?: string) => {
  const command = addYes(new Command()).parse(parameters, { from: 'user' });
  const stdin = Object.assign(new PassThrough(), { isTTY });
  const stderr = Object.assign(new PassThrough(), { isTTY });
  stdin.end(answer);
  await createConfirm(command, { stdin, stderr } as unknown as NodeJS.Process)(QUESTION);
  return String(stderr.read() ?? '');
};

describe('an act that cannot be undone', () => {
  it.each(['y\n', 'yes\n', ' Y \n'])('is done when the answer on the terminal is %j', async (answer) => {
    expect(await ask(true, [], answer)).toBe(`${QUESTION} Continue? [y/N] `);
  });

  it.each(['n\n', '\n', 'yeah\n', undefined])('is not done when the answer is %j', async (answer) => {
    await expect(ask(true, [], answer)).rejects.toMatchObject({ code: 'not_confirmed' });
  });

  it('is not done without a terminal, whatever arrives on standard input', async () => {
    await expect(ask(false, [], 'y\n')).rejects.toMatchObject({
      code: 'confirmation_required',
      message: `${QUESTION} Add --yes to confirm. It was not done.`,
    });
  });

  it.each(['--yes', '-y'])('is done without a question with %s', async (option) => {
    expect(await ask(false, [option])).toBe('');
  });
});
