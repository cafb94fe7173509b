import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program.js';
import { Cli } from '../support/cli.js';

const GROUPS = ['nodes', 'apps', 'users', 'operators', 'explain', 'audit'];

describe('platform-auth completion', () => {
  const cli = new Cli('http://127.0.0.1:1');
  let script = '';

  beforeAll(async () => {
    script = cli.path('completion.bash');
    writeFileSync(script, await cli.ok('completion', 'bash'));
  });

  afterAll(() => cli.remove());

  /** What bash offers after these words; the last one is being typed. */
  const complete = (...words: string[]): string[] => {
    const line = ['platform-auth', ...words].map((word) => `'${word}'`).join(' ');
    const program = `source '${script}'; COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _platform_auth; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync('bash', ['-c', program], { cwd: cli.folder, encoding: 'utf8' }).trim().split('\n');
  };

  it('of bash offers commands, subcommands, options and files', () => {
    expect(complete('')).toEqual(expect.arrayContaining(['init', 'doctor', 'status', 'map', ...GROUPS]));
    expect(complete('nodes', 're')).toEqual(['register', 'revoke']);
    expect(complete('nodes', 'list', '--un')).toEqual(['--unused-for']);
    expect(complete('nodes', 'revoke', 'some-id', '--y')).toEqual(['--yes']);
    expect(complete('init', '--map', 'comple')).toEqual(['completion.bash']);
  });

  it.each([
    ['zsh', /^#compdef platform-auth\n[^]*complete .*_platform_auth/],
    ['fish', /complete -c platform-auth -n '__fish_seen_subcommand_from nodes' -f -a register -d 'Register a node/],
  ])('of %s is printed', async (shell, expected) => {
    expect(await cli.ok('completion', shell)).toMatch(expected);
  });
});

describe('the help', () => {
  const listCommands = (command: Command): Command[] => [command, ...command.commands.flatMap(listCommands)];
  const [root, ...commands] = listCommands(createProgram('1.2.3', { json: false }));

  it.each(
    commands.map(
      (command) => [command.parent === root ? '' : command.parent!.name(), command.name(), command] as const,
    ),
  )('of "%s %s" has a description, describes every option, and has an example', (_parent, _name, command) => {
    let text = '';
    command.configureOutput({ writeOut: (written) => void (text += written) }).outputHelp();
    expect(command.description()).not.toBe('');
    expect(command.options.filter(({ description }) => description === '')).toEqual([]);
    expect(text).toMatch(/\nExample:\n {2}\S/);
  });
});
