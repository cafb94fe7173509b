import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'dotenv';
import { ensureSecrets } from '../../src/bootstrap/first-run.js';
import { SECRET_KEY } from '../support/settings.js';

describe('the secrets of a first start', () => {
  const before = process.cwd();
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-first-run-'));
    process.chdir(folder);
  });

  afterEach(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });

  const read = (): Record<string, string> => parse(readFileSync('.env'));

  it('are written to .env, which only its owner may read', () => {
    const variables = ensureSecrets({ PORT: '1' });
    expect(variables).toEqual({ PORT: '1', ...read() });
    expect(Object.keys(read())).toEqual(['SECRET_KEY', 'ADMIN_API_KEY', 'AUDIT_SEAL_KEY']);
    expect(new Set(Object.values(read())).size).toBe(3);
    expect(statSync('.env').mode & 0o777).toBe(0o600);
  });

  it('are added to an .env that holds other settings', () => {
    writeFileSync('.env', 'LOG_LEVEL=warn\n');
    ensureSecrets({ LOG_LEVEL: 'warn' });
    expect(readFileSync('.env', 'utf8')).toMatch(
      /^LOG_LEVEL=warn\nSECRET_KEY=\S+\nADMIN_API_KEY=\S+\nAUDIT_SEAL_KEY=\S+\n$/,
    );
  });

  it('are taken from another process that has written them since the variables were read', () => {
    const other = ensureSecrets({});
    const written = readFileSync('.env');
    expect(ensureSecrets({})).toEqual(other);
    expect(readFileSync('.env')).toEqual(written);
  });

  it('are taken from another process, or a killed one, that is about to write them', () => {
    const proposal = { SECRET_KEY: 's'.repeat(43), ADMIN_API_KEY: 'a'.repeat(43), AUDIT_SEAL_KEY: 'l'.repeat(43) };
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
    expect(() => ensureSecrets({})).toThrow('.first-start.env has no ADMIN_API_KEY: delete this file');
    expect(existsSync('.env')).toBe(false);
  });

  it('include no AUDIT_SEAL_KEY when a SECRET_KEY is in use, which seals without one', () => {
    expect(Object.keys(ensureSecrets({ SECRET_KEY }))).toEqual(['SECRET_KEY', 'ADMIN_API_KEY']);
    expect(Object.keys(read())).toEqual(['ADMIN_API_KEY']);
  });
});
