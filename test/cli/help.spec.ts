import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program.js';

const help = (command: Command): string => {
  let text = '';
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp();
  return text;
};

const list = (command: Command, path: string): [string, Command][] => [
  [path, command],
  ...command.commands.flatMap((each) => list(each, `${path} ${each.name()}`)),
];

const root = createProgram('0', { json: false });

describe('--help', () => {
  it('names the exit codes', () => {
    expect(help(root)).toMatch(/Exit codes: 0 done, 1 failed .*, 2 wrong usage, 141 /);
  });

  it.each(list(root, 'platform-auth').filter(([path]) => !/^platform-auth( completion)?$/.test(path)))(
    'of %s names the variables that it needs, and an example',
    (path, command) => {
      const text = help(command);
      expect(text).toMatch(/\b(ADMIN_API_KEY|DATABASE_URL)\b/);
      expect(text).toMatch(new RegExp(`Example:\\n  .*${path}`));
    },
  );
});
