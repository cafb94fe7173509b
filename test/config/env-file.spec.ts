import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'dotenv';
import fc from 'fast-check';
import { EnvFile, FileChangedError } from '../../src/config/env-file.js';

describe('an environment file', () => {
  let folder: string;
  let path: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-env-'));
    path = join(folder, 'ocr.env');
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const after = (text: string | Buffer, variables: Record<string, string>): string => {
    writeFileSync(path, text, { mode: 0o600 });
    const file = EnvFile.read(path);
    for (const [name, value] of Object.entries(variables)) file.set(name, value);
    if (file.needsWriting) file.write('# new');
    return readFileSync(path, 'latin1');
  };

  it.each([
    ['appends what is new', '# mine\nA=1\n', '# mine\nA=1\nKEY=value\n'],
    ['completes the last line first', 'A=1', 'A=1\nKEY=value\n'],
    ['keeps Windows line ends', 'A=1\r\nB=2\r\n', 'A=1\r\nB=2\r\nKEY=value\r\n'],
    ['changes a value where it stands', 'A=1\nKEY=old\nB=2\n', 'A=1\nKEY=value\nB=2\n'],
    ['keeps a comment behind the value', 'KEY=old # of 2024\n', 'KEY=value # of 2024\n'],
    ['fills an empty value', 'KEY=\nB=2\n', 'KEY=value\nB=2\n'],
    ['fills an empty value before a comment', 'KEY=# soon\n', 'KEY=value # soon\n'],
    ['keeps export and blanks', '  export KEY = old\n', '  export KEY = value\n'],
    ['changes the last one of several, which counts', 'KEY=a\nKEY=b\n', 'KEY=a\nKEY=value\n'],
    ['leaves a commented assignment alone', '# KEY=old\n', '# KEY=old\nKEY=value\n'],
    ['replaces a quoted value with its quotes', `KEY="old # value" # c\n`, 'KEY=value # c\n'],
    ['is not fooled by a line within quotes', 'A="\nKEY=inner\n"\n', 'A="\nKEY=inner\n"\nKEY=value\n'],
  ])('%s', (_, before, expected) => {
    expect(after(before, { KEY: 'value' })).toBe(expected);
  });

  it('keeps bytes that are not valid UTF-8', () => {
    const bytes = Buffer.from([0x23, 0xff, 0xfe, 0x0a]);
    expect(after(bytes, { KEY: 'value' })).toBe(`${bytes.toString('latin1')}KEY=value\n`);
  });

  it.each(['with space', `it's`, 'a#b', '"', 'ü', '$HOME', 'a\\nb', ' x '])(
    'quotes values so that they are read back unchanged: %p',
    (value) => {
      expect(parse(Buffer.from(after('', { KEY: value }), 'latin1')).KEY).toBe(value);
    },
  );

  it('changes one variable and no other, for any content of the file', () => {
    const piece = fc.constantFrom(
      'KEY',
      'A',
      '=',
      '\n',
      '\r\n',
      '"',
      "'",
      '`',
      '#',
      ' ',
      'x',
      '\\',
      'export ',
      ':',
      '$',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 24 }), (pieces) => {
        const text = pieces.join('');
        const before = parse(text);
        let changed: string;
        try {
          changed = after(text, { KEY: 'value' });
        } catch {
          changed = readFileSync(path, 'latin1');
          expect(changed).toBe(text);
          return;
        }
        expect(parse(changed)).toEqual({ ...before, KEY: 'value' });
      }),
      { numRuns: 500 },
    );
  });

  it('is not written when nothing changes', () => {
    writeFileSync(path, 'KEY=value\n', { mode: 0o600 });
    const file = EnvFile.read(path);
    file.set('KEY', 'value');
    expect(file.needsWriting).toBe(false);
  });

  it('is readable by its owner only, also when others could read it before', () => {
    writeFileSync(path, 'KEY=value\n');
    chmodSync(path, 0o644);
    const file = EnvFile.read(path);
    expect(file.needsWriting).toBe(true);
    file.write('# new');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, 'utf8')).toBe('KEY=value\n');
  });

  it('gets a heading only when it is new', () => {
    const file = EnvFile.read(path);
    file.set('KEY', 'value');
    file.write('# new');
    expect(readFileSync(path, 'utf8')).toBe('# new\nKEY=value\n');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['ocr.env']);
  });

  it('is refused when it is a symbolic link or a directory', () => {
    writeFileSync(join(folder, 'other'), '');
    symlinkSync(join(folder, 'other'), path);
    expect(() => EnvFile.read(path)).toThrow(/symbolic link/);
    rmSync(path);
    mkdirSync(path);
    expect(() => EnvFile.read(path)).toThrow(/a directory/);
  });

  it('does not follow a link that replaced it since (TOCTOU)', () => {
    const file = EnvFile.read(path);
    file.set('KEY', 'value');
    symlinkSync(join(folder, 'elsewhere'), path);
    expect(() => file.write('# new')).toThrow(/symbolic link/);
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readdirSync(folder)).toEqual(['ocr.env']);
  });

  it('does not overwrite what another process wrote in the meantime', () => {
    writeFileSync(path, 'A=1\n');
    const file = EnvFile.read(path);
    file.set('KEY', 'value');
    writeFileSync(path, 'A=2\n');
    expect(() => file.write('# new')).toThrow(/in the meantime/);
    expect(readFileSync(path, 'utf8')).toBe('A=2\n');
  });

  it('is created by one of two processes that find none', () => {
    const [first, second] = [EnvFile.read(path), EnvFile.read(path)];
    first.set('KEY', 'first');
    second.set('KEY', 'second');
    first.write('# new');
    expect(() => second.write('# new')).toThrow(FileChangedError);
    expect(parse(readFileSync(path))).toEqual({ KEY: 'first' });
    expect(readdirSync(folder)).toEqual(['ocr.env']);
  });
});
