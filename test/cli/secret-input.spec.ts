import { PassThrough } from 'node:stream';
import { readNewPassword, type Terminal } from '../../src/cli/prompts.js';

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
  ])('is the first line of standard input: %j', async (sent, password) => {
    const stdin = new PassThrough().end(sent);
    expect(await readNewPassword({ stdin, stderr: new PassThrough() } as unknown as Terminal)).toBe(password);
  });
});
