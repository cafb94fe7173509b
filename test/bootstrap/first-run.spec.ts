import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os, { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'dotenv';
import { ensureSecrets, formatWelcome } from '../../src/bootstrap/first-run.js';
import { appendChecksum, CHECKSUM_LENGTH, findKeys } from '../../src/foundation/crypto/secret.js';
import type { Environment } from '../../src/foundation/config/environment.js';
import { SECRET_KEY } from '../support/settings.js';
import { describeStartFailure } from '../../src/bootstrap/start-report.js';
import { EmbeddedPostgres } from '../../src/foundation/embedded-postgres/embedded-postgres.js';

describe('the greeting of a start', () => {
  it.each([
    ['0.0.0.0', 'http://127.0.0.1:7701'],
    ['::', 'http://[::1]:7701'],
    ['::1', 'http://[::1]:7701'],
    ['auth.example', 'http://auth.example:7701'],
  ])('names an address to call when HOST is %s', (host, url) => {
    const environment = { host, metricsHost: host, port: 7701 } as Environment;
    expect(formatWelcome(environment, undefined)).toContain(`health   ${url}/health`);
  });

  it('does not read the admin key of .env when the service runs with that of the environment', () => {
    const environment = { host: '127.0.0.1', metricsHost: '127.0.0.1', port: 7701 } as Environment;
    const { env } = process;
    try {
      process.env = { ...env, ADMIN_API_KEY: '' };
      expect(formatWelcome(environment, undefined)).toMatch(/ADMIN_API_KEY of \.env\)[^]*X-Admin-Key: \$\(sed/);
      process.env = { ...env, ADMIN_API_KEY: 'x' };
      expect(formatWelcome(environment, undefined)).toMatch(/of the environment\)[^]*"X-Admin-Key: <ADMIN_API_KEY>"/);
    } finally {
      process.env = env;
    }
  });
});

describe('the secrets of a first start', () => {
  const before = process.cwd();
  let folder: string;
  let printed: string[];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-first-run-'));
    process.chdir(folder);
    printed = [];
    jest.spyOn(console, 'log').mockImplementation((line: string) => printed.push(line));
  });

  afterEach(() => {
    jest.restoreAllMocks();
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });

  const read = (): Record<string, string> => parse(readFileSync('.env'));

  it('are written to .env, which only its owner may read', () => {
    const variables = ensureSecrets({ PORT: '1' });
    expect(variables).toEqual({ PORT: '1', ...read() });
    expect(Object.keys(read())).toEqual(['SECRET_KEY', 'MASTER_KEY', 'ADMIN_API_KEY', 'AUDIT_SEAL_KEY']);
    expect(new Set(Object.values(read())).size).toBe(4);
    const { ADMIN_API_KEY = '' } = read();
    expect(findKeys(ADMIN_API_KEY)).toEqual([{ kind: 'admin', key: ADMIN_API_KEY }]);
    expect(appendChecksum(ADMIN_API_KEY.slice(0, -CHECKSUM_LENGTH))).toBe(ADMIN_API_KEY);
    expect(statSync('.env').mode & 0o777).toBe(0o600);
  });

  it('are added to an .env that holds other settings', () => {
    writeFileSync('.env', 'LOG_LEVEL=warn\n');
    ensureSecrets({ LOG_LEVEL: 'warn' });
    expect(readFileSync('.env', 'utf8')).toMatch(
      /^LOG_LEVEL=warn\nSECRET_KEY=\S+\nMASTER_KEY=\S+\nADMIN_API_KEY=\S+\nAUDIT_SEAL_KEY=\S+\n$/,
    );
  });

  it('are named when they are written, so that one that replaces a lost one does not go unnoticed', () => {
    const { SECRET_KEY, MASTER_KEY } = ensureSecrets({});
    expect(printed).toEqual(['Generated SECRET_KEY, MASTER_KEY, ADMIN_API_KEY, AUDIT_SEAL_KEY, now in .env']);
    writeFileSync('.env', `SECRET_KEY=${SECRET_KEY}\nMASTER_KEY=${MASTER_KEY}\n`);
    ensureSecrets(read());
    expect(printed.slice(1)).toEqual(['Generated ADMIN_API_KEY, now in .env']);
  });

  it('are taken from another process that has written them since the variables were read', () => {
    const other = ensureSecrets({});
    const written = readFileSync('.env');
    expect(ensureSecrets({})).toEqual(other);
    expect(readFileSync('.env')).toEqual(written);
  });

  it('are taken from another process, or a killed one, that is about to write them', () => {
    const proposal = {
      SECRET_KEY: 's'.repeat(43),
      MASTER_KEY: 'm'.repeat(43),
      ADMIN_API_KEY: 'a'.repeat(43),
      AUDIT_SEAL_KEY: 'l'.repeat(43),
    };
    writeFileSync(
      '.first-start.env',
      Object.entries(proposal)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );
    expect(ensureSecrets({})).toEqual(proposal);
    expect(read()).toEqual(proposal);
    expect(existsSync('.first-start.env')).toBe(false);
  });

  it('are in no other file once .env has them, also after a start that was killed', () => {
    const variables = ensureSecrets({});
    writeFileSync('.first-start.env', readFileSync('.env'));
    expect(ensureSecrets(variables)).toEqual(variables);
    expect(existsSync('.first-start.env')).toBe(false);
  });

  it('are not made of a file that lacks one of them', () => {
    writeFileSync('.first-start.env', 'SECRET_KEY=x\n');
    expect(() => ensureSecrets({})).toThrow('.first-start.env has no MASTER_KEY: delete this file');
    expect(existsSync('.env')).toBe(false);
  });

  it('include neither MASTER_KEY nor AUDIT_SEAL_KEY when a SECRET_KEY is in use, which encrypts and seals without them', () => {
    expect(Object.keys(ensureSecrets({ SECRET_KEY }))).toEqual(['SECRET_KEY', 'ADMIN_API_KEY']);
    expect(Object.keys(read())).toEqual(['ADMIN_API_KEY']);
  });
});

describe('a first start of a user without an entry in /etc/passwd, as a container may run it,', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('says that PostgreSQL refuses that user, and what to do', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-unnamed-'));
    jest.spyOn(process, 'getuid').mockReturnValue(54_321);
    jest.spyOn(os, 'userInfo').mockImplementation(() => {
      throw new Error('uv_os_get_passwd returned ENOENT');
    });
    const error: unknown = await EmbeddedPostgres.start({ folder, makePassword: () => 'x' }).catch((e: unknown) => e);
    expect(describeStartFailure(error)).toMatch(
      /^The service could not start: .* \/etc\/passwd \(user id 54321\)\. Start as a user that has one, or set DATABASE_URL/,
    );
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
  });
});

const failure = (code: string, fields: object = {}) =>
  Object.assign(new Error(`${code}: what the system says, open '.env'`), { code, ...fields });

describe('the message of a failed start', () => {
  it.each([
    ['a port below 1024', failure('EACCES', { variable: 'PORT', port: 80 }), /^PORT 80 .*above 1023/],
    ['an address of another machine', failure('EADDRNOTAVAIL', { variable: 'PORT', port: 7701 }), /^HOST /],
    ['a taken port', failure('EADDRINUSE', { variable: 'PORT', port: 7701 }), /^Port 7701 is taken.*PORT=7702/],
    ['a taken port of the metrics', failure('EADDRINUSE', { variable: 'METRICS_PORT', port: 9464 }), /METRICS_PORT/],
    ['a database that refuses', failure('ECONNREFUSED'), /^The database at DATABASE_URL refuses/],
    ['an unknown database host', failure('ENOTFOUND'), /^The host in DATABASE_URL is not known/],
    ["another user's folder", failure('EACCES'), /open '\.env'.*set SECRET_KEY, ADMIN_API_KEY and DATABASE_URL/],
    ['a read-only file system', failure('EROFS'), /start it in a folder of your own/],
    ['anything else', new Error('what it was'), /^The service could not start: what it was$/],
  ])('names the cause and the remedy: %s', (_what, error, expected) => {
    expect(describeStartFailure(error)).toMatch(expected);
  });
});
