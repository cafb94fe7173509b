import { execFileSync } from 'node:child_process';
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
import { EnvFile, FileChangedError, inspectEnvFile } from '../../../src/foundation/config/env-file.js';
import {
  InvalidEnvironmentError,
  overrideVariables,
  parseAuditSealSecret,
  parseVariable,
  readSecretFiles,
  type Variables,
} from '../../../src/foundation/config/environment.js';
import { FILE_VARIABLES } from '../../../src/foundation/config/variables.js';
import { SECRET_KEY } from '../../support/settings.js';

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
    ['nothing', '\n# mine\n  # c\nA=1 # c\nexport B="x\ny\nz"\r\n\r\nC: 3\nD =\n  E = 5\nF=\'a b\'\n', []],
    ['a line without =', 'A=1\ns3cret\n', ['line 2: write NAME=value']],
    ['a quoted value before it', 'A="\n\n"\ns3cret', ['line 4: write']],
    ['a name with a blank', 'MY s3cret=1', ['line 1: write']],
    ['many', 's3cret\n'.repeat(9), ['line 1, 2, 3, 4, 5 …: write']],
  ])(
    'is reported with the numbers of lines that set nothing, never with their content: %s',
    (_what, text, expected) => {
      writeFileSync(path, text, { mode: 0o600 });
      const found = [...inspectEnvFile(path)];
      expect(found).toEqual(expected.map((part) => expect.stringContaining(part) as string));
      expect(found.join()).not.toContain('s3cret');
    },
  );

  it('is reported when users other than its owner may read it', () => {
    expect([...inspectEnvFile(path)]).toEqual([]);
    writeFileSync(path, 'A=1\n');
    chmodSync(path, 0o644);
    expect([...inspectEnvFile(path)]).toEqual([
      expect.stringMatching(/ocr\.env \(mode 0644\).* Type: chmod 600 .*ocr\.env$/),
    ]);
    chmodSync(path, 0o600);
    expect([...inspectEnvFile(path)]).toEqual([]);
  });

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

  it('quotes values so that a shell that reads the file gets the same, and runs nothing', () => {
    for (const value of [
      'with space',
      `it's`,
      'a#b',
      '"',
      'ü',
      '$HOME',
      '$(id)',
      '`id`',
      'a\\nb',
      ' x ',
      'a;id',
      'a&id',
      '~',
      'a\\$b',
    ]) {
      const text = Buffer.from(after('', { KEY: value }), 'latin1');
      const script = `set -a; eval "$(cat)"; printenv KEY`;
      expect(execFileSync('sh', ['-c', script], { input: text, encoding: 'utf8' })).toBe(`${value}\n`);
    }
  });

  it.each(['a\nb', 'a\rb', '\u0000', 'a\u001b[31m', `it's $HOME`, `it's \`id\``, `'"`])(
    'refuses a value that it cannot quote for dotenv and a shell alike: %j',
    (value) => {
      expect(() => after('', { KEY: value })).toThrow('the value of KEY cannot stand in an environment file');
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

const SECRET = 'hunter2-in-a-file';

describe('a secret in a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-secrets-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  const write = (content: string | Buffer): string => {
    const path = join(folder, 'secret');
    writeFileSync(path, content);
    return path;
  };

  const refusalOf = (read: () => unknown): string => {
    try {
      read();
    } catch (error) {
      if (error instanceof InvalidEnvironmentError) return error.message;
      throw error;
    }
    return 'accepted';
  };

  it('may be each secret of the service', () => {
    expect([...FILE_VARIABLES].sort()).toEqual([
      'ADMIN_API_KEY',
      'AUDIT_SEAL_KEY',
      'DATABASE_URL',
      'LOGGING_APP_KEY',
      'MAIL_URL',
      'MASTER_KEY',
      'MASTER_KEY_PREVIOUS',
      'SECRET_KEY',
      'SECRET_KEY_PREVIOUS',
    ]);
  });

  it.each([...FILE_VARIABLES])('is the value of %s, and no other variable changes', (name) => {
    const variables = { [`${name}_FILE`]: write(SECRET), PORT: '1', PASSWORD_BLOCKLIST: 'off' };
    expect(readSecretFiles(variables)).toEqual({ [name]: SECRET, PORT: '1', PASSWORD_BLOCKLIST: 'off' });
  });

  it.each([
    ['a', 'a'],
    ['a\n', 'a'],
    ['a\r\n', 'a'],
    ['a\n\n', 'a\n'],
    [' a ', ' a '],
    ['a\nb\n', 'a\nb'],
    ['\uFEFFa', '\uFEFFa'],
  ])('%j is read as %j', (content, value) => {
    expect(readSecretFiles({ SECRET_KEY_FILE: write(content) })).toEqual({ SECRET_KEY: value });
  });

  it.each([...FILE_VARIABLES])('%s is refused when the variable is set too, naming both', (name) => {
    const refusal = refusalOf(() => readSecretFiles({ [name]: SECRET, [`${name}_FILE`]: write(SECRET) }));
    expect(refusal).toContain(`${name} and ${name}_FILE are both set`);
    expect(refusal).not.toContain(SECRET);
  });

  it.each([
    ['an empty file', '', 'is empty'],
    ['a file with a line break only', '\n', 'is empty'],
    ['bytes that are not UTF-8', Buffer.from([...Buffer.from(SECRET), 0xff]), 'is not text'],
    ['a NUL byte, which no environment can hold', `${SECRET}\0`, 'is not text'],
  ])('is refused by name, without the content: %s', (_what, content, reason) => {
    const refusal = refusalOf(() => readSecretFiles({ SECRET_KEY_FILE: write(content) }));
    expect(refusal).toContain(`SECRET_KEY_FILE names a file that ${reason}`);
    expect(refusal).not.toContain(SECRET);
  });

  it.each([
    ['does not exist', 'no-such-file', 'ENOENT'],
    ['is a folder', 'folder', 'EISDIR'],
  ])('is refused by name, without the path, which may be the secret itself: it %s', (_what, path, code) => {
    mkdirSync(join(folder, 'folder'), { recursive: true });
    const refusal = refusalOf(() => readSecretFiles({ ADMIN_API_KEY_FILE: join(folder, path) }));
    expect(refusal).toContain(`ADMIN_API_KEY_FILE names a file that cannot be read (${code})`);
    expect(refusal).not.toContain(path);
  });

  it('reports every unusable file at once', () => {
    const both: Variables = { SECRET_KEY_FILE: join(folder, 'a'), DATABASE_URL_FILE: join(folder, 'b') };
    expect(refusalOf(() => readSecretFiles(both))).toMatch(/SECRET_KEY_FILE.*DATABASE_URL_FILE/s);
  });

  it('is read by commands of single variables, which do not touch the other files', () => {
    const others = { SECRET_KEY_FILE: join(folder, 'no-such-file') };
    const url = 'postgresql://user@localhost/auth';
    expect(parseVariable({ DATABASE_URL_FILE: write(`${url}\n`), ...others }, 'DATABASE_URL')).toBe(url);
    expect(parseAuditSealSecret({ AUDIT_SEAL_KEY_FILE: write(SECRET_KEY), ...others })).toBe(SECRET_KEY);
    expect(parseAuditSealSecret({ MASTER_KEY_FILE: write(SECRET_KEY), ...others })).toBe(SECRET_KEY);
    expect(parseAuditSealSecret({ SECRET_KEY_FILE: write(`${SECRET_KEY}\n`) })).toBe(SECRET_KEY);
    expect(refusalOf(() => parseAuditSealSecret(others))).toContain('SECRET_KEY_FILE');
  });

  it('keeps the bounds of the variable', () => {
    const refusal = refusalOf(() => parseVariable({ DATABASE_URL_FILE: write(SECRET) }, 'DATABASE_URL'));
    expect(refusal).toContain('DATABASE_URL must be a PostgreSQL URL');
    expect(refusal).not.toContain(SECRET);
  });

  it('is one with its variable when other variables override it', () => {
    const file = { SECRET_KEY: 'a', ADMIN_API_KEY_FILE: 'b', DATABASE_URL: 'c', PORT: '1', PORT_FILE: '2' };
    const process = { SECRET_KEY_FILE: 'd', ADMIN_API_KEY: 'e', PORT: '3' };
    expect(overrideVariables(file, process)).toEqual({ ...process, DATABASE_URL: 'c', PORT_FILE: '2' });
  });
});
