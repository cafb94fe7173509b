import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import type { Command } from 'commander';
import { detectScreen, formatTable, wrapText } from '../../src/cli/tables.js';
import { Cli } from '../support/cli.js';
import { fromRoot } from '../support/from-root.js';
import { formatResult, readNewPassword, say, type Terminal } from '../../src/cli/terminal.js';

describe('a table', () => {
  it('prints the lines of a cell below each other, and escapes line breaks in values', () => {
    const rows = formatTable(['what'], [{ what: ['first', 'second\nforged', 'red \u001b[31m'] }]).split('\n');
    expect(rows.slice(2, -1).map((row) => row.replaceAll('│', '').trim())).toEqual([
      'first',
      'second\ufffdforged',
      'red \ufffd[31m',
    ]);
  });
});

describe('a message', () => {
  const hostile = 'a\u001b]0;title\u0007\u001b[8m\u009b2J\u202e\rb';
  const cleaned = 'a\ufffd]0;title\ufffd\ufffd[8m\ufffd2J\ufffd\ufffdb';
  const command = (json: boolean) => ({ optsWithGlobals: () => ({ json }) }) as unknown as Command;

  it('and a result reach the terminal without the control characters of what they quote, and with their own colours', () => {
    const written = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
    say(`two\nlines \u001b[31mred\u001b[39m ${hostile}`);
    const [[text]] = written.mock.calls as [[string]];
    written.mockRestore();
    expect(text).toBe(`two\nlines \u001b[31mred\u001b[39m ${cleaned}\n`);
    expect(formatResult(command(false), { email: hostile }, ({ email }) => email)).toBe(`${cleaned}\n`);
  });

  it('in JSON has them escaped: the data are the same', () => {
    const text = formatResult(command(true), { email: `${hostile}\u{e0001}` }, () => '');
    expect(text).not.toMatch(/[^\n\u0020-\u007e]/);
    expect(JSON.parse(text)).toEqual({ email: `${hostile}\u{e0001}` });
  });
});

describe('a table of 200,000 rows', () => {
  it('has a line for each row, and a column as wide as the longest of its values', () => {
    const rows = Array.from({ length: 200_000 }, (_, index) => ({ id: `user-${index}`, name: 'x' }));
    const lines = formatTable(['id', 'name'], rows).split('\n');
    expect(lines).toHaveLength(200_003);
    expect(lines[1]).toBe('│ id          │ name │');
    expect(lines.at(-2)).toBe('│ user-199999 │ x    │');
  });
});

describe('a table on a terminal', () => {
  const columns = ['id', 'household', 'name'] as const;
  const rows = [{ id: 'a'.repeat(20), household: 'b'.repeat(20), name: '台所場' }];
  const show = (width: number, options: object = {}): string =>
    formatTable(columns, rows, { screen: { columns: width, hasColours: false }, ...options });

  it.each([
    [56, []],
    [55, ['name']],
    [30, ['household', 'name']],
    [3, ['household', 'name']],
  ])('of %d columns leaves out the last columns that do not fit, and names them', (width, dropped) => {
    const [, head, ...rest] = show(width).split('\n');
    expect(columns.filter((name) => !head!.includes(name))).toEqual(dropped);
    const note = dropped.length === 0 ? '└' : `Not shown at this width: ${dropped.join(', ')}.`;
    expect(rest.at(-1)).toContain(note);
  });

  it('leaves out the columns first that the command can do without', () => {
    expect(show(40, { drop: ['household'] })).toMatch(/Not shown at this width: household\./);
  });

  it('has colours only where they are wanted', () => {
    const colour = (name: string): 'red' | undefined => (name === 'name' ? 'red' : undefined);
    const screen = { columns: 80, hasColours: true };
    expect(show(80, { colour, screen })).toContain('\u001b[31m台所場\u001b[39m');
    expect(show(80, { colour })).not.toContain('\u001b');
  });

  it.each([
    ['a terminal', { isTTY: true, columns: 80 }, {}, { columns: 80, hasColours: true }],
    ['a terminal with NO_COLOR', { isTTY: true, columns: 80 }, { NO_COLOR: '1' }, { columns: 80, hasColours: false }],
    [
      'a terminal with an empty NO_COLOR',
      { isTTY: true, columns: 80 },
      { NO_COLOR: '' },
      { columns: 80, hasColours: true },
    ],
    ['a terminal without colours', { isTTY: true, columns: 80 }, { TERM: 'dumb' }, { columns: 80, hasColours: false }],
    ['a pipe', { isTTY: false, columns: 0 }, {}, { columns: Infinity, hasColours: false }],
  ])('%s is recognised', (_, stream, variables, screen) => {
    const before = { TERM: process.env.TERM, NO_COLOR: process.env.NO_COLOR };
    Object.assign(process.env, { TERM: 'xterm', NO_COLOR: '', ...variables });
    expect(detectScreen(stream)).toEqual(screen);
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    }
  });
});

describe('the findings of doctor', () => {
  it('are printed with the remedy below the fault', async () => {
    const cli = new Cli('http://127.0.0.1:9', {});
    const map = fromRoot('platform.yaml');
    const { code, stdout } = await cli.run('doctor', '--map', map, '--env-dir', cli.folder);
    expect(code).toBe(1);
    expect(stdout).not.toContain('\ufffd');
    expect(stdout).toMatch(
      /│ broken +│ auth\.env +│\n│ +│ The file is missing\. +│\n│ +│ → Is --env-dir right\? If so, run init/,
    );
  });
});

describe('wrapped text', () => {
  it('breaks no word, also one that is longer than a line', () => {
    const path = `/srv/${'a'.repeat(90)}/env/mcp.env`;
    const text = `The configuration is not usable:\n- chmod 600 ${path}. ${'If it is not yours, ask. '.repeat(5).trim()}`;
    const lines = wrapText(text);
    expect(lines.join(' ').split(' ')).toEqual(text.split(/\s+/));
    expect(lines[0]).toBe('The configuration is not usable:');
    expect(lines.filter((line) => line.length > 72)).toEqual([`${path}.`]);
  });

  it('is recognised where .env cannot be read', () => {
    const [folder, before] = [mkdtempSync(join(tmpdir(), 'screen-')), process.cwd()];
    mkdirSync(join(folder, '.env'));
    process.chdir(folder);
    try {
      expect(detectScreen({ isTTY: true, columns: 80 })).toMatchObject({ columns: 80 });
    } finally {
      process.chdir(before);
      rmSync(folder, { recursive: true });
    }
  });
});

/** What is read on a terminal where these keys are typed, one entry for each prompt. */
const type = async (...entries: (string | Buffer[])[]) => {
  const modes: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => {
      modes.push(isRaw);
      const parts = isRaw ? [entries.shift() ?? '\u0003'].flat() : [];
      for (const part of parts) setImmediate(() => stdin.write(part));
    },
  });
  const stderr = new PassThrough();
  const password = await readNewPassword({ stdin, stderr }).catch((error: unknown) => error);
  return { password, shown: String(stderr.read()), modes };
};

describe('a new password on a terminal', () => {
  it('is read twice, without echo, and the terminal is as before', async () => {
    expect(await type('correct hörse\r', 'correct hörse\r')).toEqual({
      password: 'correct hörse',
      shown: 'Password: \nAgain: \n',
      modes: [true, false, true, false],
    });
  });

  it('can be corrected while it is typed', async () => {
    expect((await type('abX\u007fc\n', 'abc\n')).password).toBe('abc');
  });

  it('does not contain the keys that edit the line', async () => {
    const typed = 'wrong\u0015ab\u001b[D\u001b[Cc\u001b[A\r';
    expect((await type(typed, 'abc\r')).password).toBe('abc');
  });

  it('is whole when a character arrives in two parts', async () => {
    const [first, second] = [Buffer.from('h\u00f6rse\r').subarray(0, 2), Buffer.from('h\u00f6rse\r').subarray(2)];
    expect((await type([first, second], 'h\u00f6rse\r')).password).toBe('h\u00f6rse');
  });

  it.each([
    ['differs the second time', ['one\r', 'two\r'], 'passwords_differ'],
    ['is empty', ['\r'], 'no_password'],
    ['is interrupted', ['abc\u0003'], 'interrupted'],
  ])('that %s is refused', async (_, entries, code) => {
    const { password, modes } = await type(...entries);
    expect(password).toMatchObject({ code });
    expect(modes.at(-1)).toBe(false);
  });
});

describe('a new password without a terminal', () => {
  it.each([
    ['secret words\n', 'secret words'],
    ['secret words', 'secret words'],
    [' spaces \r\nrest', ' spaces '],
    ['', { code: 'no_password' }],
  ])('is the first line of standard input, which must not be empty: %j', async (sent, expected) => {
    const stdin = new PassThrough().end(sent);
    const read = readNewPassword({ stdin, stderr: new PassThrough() } as unknown as Terminal);
    const outcome = await read.catch((error: unknown) => ({ code: (error as { code: string }).code }));
    expect(outcome).toEqual(expected);
  });
});
