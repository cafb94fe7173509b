import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  InvalidEnvironmentError,
  overrideVariables,
  type Variables,
  readSecretFiles,
} from '../../src/config/environment.js';
import { parseAuditSealSecret, parseDatabaseUrl } from '../../src/config/single-variables.js';
import { FILE_VARIABLES } from '../../src/config/variables.js';
import { SECRET_KEY } from '../support/settings.js';

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
    expect(parseDatabaseUrl({ DATABASE_URL_FILE: write(`${url}\n`), ...others })).toBe(url);
    expect(parseAuditSealSecret({ AUDIT_SEAL_KEY_FILE: write(SECRET_KEY), ...others })).toBe(SECRET_KEY);
    expect(parseAuditSealSecret({ SECRET_KEY_FILE: write(`${SECRET_KEY}\n`) })).toBe(SECRET_KEY);
    expect(refusalOf(() => parseAuditSealSecret(others))).toContain('SECRET_KEY_FILE');
  });

  it('keeps the bounds of the variable', () => {
    const refusal = refusalOf(() => parseDatabaseUrl({ DATABASE_URL_FILE: write(SECRET) }));
    expect(refusal).toContain('DATABASE_URL must be a PostgreSQL URL');
    expect(refusal).not.toContain(SECRET);
  });

  it('is one with its variable when other variables override it', () => {
    const file = { SECRET_KEY: 'a', ADMIN_API_KEY_FILE: 'b', DATABASE_URL: 'c', PORT: '1', PORT_FILE: '2' };
    const process = { SECRET_KEY_FILE: 'd', ADMIN_API_KEY: 'e', PORT: '3' };
    expect(overrideVariables(file, process)).toEqual({ ...process, DATABASE_URL: 'c', PORT_FILE: '2' });
  });
});
