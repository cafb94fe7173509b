import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { VerifierConfigurationError } from '../src/errors.js';
import { readEnvironment, toSettings } from '../src/options.js';
import { Verifier } from '../src/verifier.js';

const SECRET = 'a-secret-that-must-not-be-shown-in-an-error';
const VARIABLES = {
  AUTH_URL: 'http://127.0.0.1:7701/',
  AUTH_APP_ID: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  AUTH_APP_KEY: 'pa_app_key',
  SERVICE_NAME: 'recipes',
  SECRET_KEY: SECRET,
};

function messageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof VerifierConfigurationError) return error.message;
    throw error;
  }
  return 'no error';
}

describe('a verifier from the environment', () => {
  it('takes what platform-auth init writes', () => {
    const variables = { ...VARIABLES, AUTH_JWKS_URL: 'http://127.0.0.1:7701/.well-known/jwks.json' };
    expect(toSettings(readEnvironment(variables))).toMatchObject({
      url: 'http://127.0.0.1:7701',
      appId: VARIABLES.AUTH_APP_ID,
      ownKey: { key: 'pa_app_key' },
      serviceName: 'recipes',
      secretKey: SECRET,
      jwksUrl: 'http://127.0.0.1:7701/.well-known/jwks.json',
      issuer: 'platform-auth',
      outageGraceSeconds: 0,
    });
  });

  it('takes the key from AUTH_APP_KEY_FILE, with or without a line break at its end', () => {
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-options-'));
    const file = join(folder, 'key');
    const variables = { ...VARIABLES, AUTH_APP_KEY: '', AUTH_APP_KEY_FILE: file };
    const read = () => toSettings(readEnvironment(variables));
    for (const text of ['pa_app_of-file', 'pa_app_of-file\n', 'pa_app_of-file\r\n']) {
      writeFileSync(file, text);
      expect(read().ownKey.key).toBe('pa_app_of-file');
    }
    const unusable = /^appKeyFile \(AUTH_APP_KEY_FILE\) must be a readable file/;
    writeFileSync(file, 'pa_app_of file\n');
    expect(messageOf(read)).toMatch(unusable);
    rmSync(folder, { recursive: true });
    expect(messageOf(read)).toMatch(unusable);
    expect(messageOf(() => toSettings(readEnvironment({ ...variables, AUTH_APP_KEY: 'pa_app_key' })))).toMatch(
      /exclude each other$/,
    );
  });

  it('takes the grace from AUTH_OUTAGE_GRACE_SECONDS', () => {
    const variables = { ...VARIABLES, AUTH_OUTAGE_GRACE_SECONDS: ' 2.5 ' };
    expect(toSettings(readEnvironment(variables)).outageGraceSeconds).toBe(2.5);
  });

  it('logs a line in JSON with the time and the service unless it is given a logger', () => {
    const print = jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    toSettings(readEnvironment(VARIABLES)).logger.warn('event', { detail: 'x' });
    const line = JSON.parse(print.mock.calls[0]?.[0] as string) as { time: string };
    expect(line).toEqual({ time: line.time, level: 'warn', event: 'event', service: 'recipes', detail: 'x' });
    expect(new Date(line.time).toISOString()).toBe(line.time);
    print.mockRestore();
  });

  it('names every variable that is missing; an empty one counts as missing', () => {
    const message = messageOf(() => Verifier.fromEnvironment({}, { AUTH_URL: VARIABLES.AUTH_URL, AUTH_APP_ID: ' ' }));
    expect(message).toBe('Not set: AUTH_APP_ID, AUTH_APP_KEY, SERVICE_NAME');
  });

  it('takes SECRET_KEY with its blanks, as the service does', () => {
    const secret = `${SECRET}\n`;
    expect(readEnvironment({ ...VARIABLES, SECRET_KEY: secret }).secretKey).toBe(secret);
    expect(readEnvironment({ ...VARIABLES, SECRET_KEY: ' \n' }).secretKey).toBeUndefined();
  });

  it('takes SECRET_KEY_PREVIOUS with its blanks too, and only with SECRET_KEY', () => {
    const variables = { ...VARIABLES, SECRET_KEY_PREVIOUS: `${SECRET}\n` };
    expect(readEnvironment(variables).secretKeyPrevious).toBe(`${SECRET}\n`);
    expect(readEnvironment({ ...variables, SECRET_KEY_PREVIOUS: ' \n' }).secretKeyPrevious).toBeUndefined();
    expect(messageOf(() => Verifier.fromEnvironment({}, { ...variables, SECRET_KEY: '' }))).toBe(
      'secretKeyPrevious (SECRET_KEY_PREVIOUS) must have at least 32 bytes, and needs SECRET_KEY',
    );
  });

  it('goes on when its logger throws', () => {
    const logger = {
      warn: () => {
        throw new Error('the logger failed');
      },
    };
    const print = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    const settings = toSettings({ ...readEnvironment(VARIABLES), logger });
    expect(() => settings.logger.warn('event', {})).not.toThrow();
    expect(print).toHaveBeenCalledTimes(1);
    print.mockRestore();
  });

  it.each([
    ['AUTH_URL', 'auth:7701'],
    ['AUTH_URL', 'http://name:password@auth:7701'],
    ['AUTH_URL', 'http://name@auth:7701'],
    ['AUTH_URL', 'http://auth:7701/?tenant=a'],
    ['AUTH_URL', 'http://auth:7701/?'],
    ['AUTH_URL', 'http://auth:7701/#part'],
    ['AUTH_JWKS_URL', 'http://auth:7701/jwks.json?a'],
    ['AUTH_APP_KEY', 'kéy'],
    ['AUTH_APP_KEY', 'pa_node_a-key-of-a-node'],
    ['AUTH_APP_KEY', 'pa_app_a key in two parts'],
    ['AUTH_APP_ID', 'recipes'],
    ['AUTH_APP_ID', '01985f4e7c3a7b529d1e2f6a8c4b0d11'],
    ['AUTH_OUTAGE_GRACE_SECONDS', '61'],
    ['AUTH_OUTAGE_GRACE_SECONDS', '5s'],
    ['SERVICE_NAME', 'a name'],
    ['AUTH_JWKS_URL', 'file:///etc/passwd'],
    ['SECRET_KEY', 'short'],
    ['SECRET_KEY_PREVIOUS', 'short'],
  ])('names %s when it is not valid, without its value', (name, value) => {
    const message = messageOf(() => Verifier.fromEnvironment({}, { ...VARIABLES, [name]: value }));
    expect(message).toContain(name);
    expect(message).not.toContain(value);
  });

  it.each([
    ['outageGraceSeconds', 61],
    ['outageGraceSeconds', Number.NaN],
    ['maxEntries', 0],
    ['maxQuestions', 1.5],
  ])('refuses %s %d', (name, value) => {
    expect(messageOf(() => Verifier.fromEnvironment({ [name]: value }, VARIABLES))).toContain(name);
  });

  it.each([
    ['url', undefined],
    ['url', null],
    ['url', new URL('http://auth:7701')],
    ['appId', undefined],
    ['appKey', 7],
    ['serviceName', null],
    ['secretKey', Buffer.alloc(32)],
    ['secretKey', 7],
    ['secretKeyPrevious', Buffer.alloc(32)],
    ['jwksUrl', 7],
    ['issuer', 7],
    ['audience', ['recipes']],
    ['outageGraceSeconds', '5'],
    ['maxEntries', '5'],
    ['maxQuestions', true],
    ['logger', 'console'],
    ['logger', { info: () => undefined }],
  ])('names %s when it has another type: %p', (name, value) => {
    const options = { ...readEnvironment(VARIABLES), [name]: value };
    expect(messageOf(() => new Verifier(options))).toMatch(new RegExp(`^${name}\\b`));
  });
});
