import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import {
  InvalidEnvironmentError,
  parseEnvironment,
  readVariables,
  type Variables,
} from '../../../src/foundation/config/environment.js';
import { describeIgnoredVariables } from '../../../src/bootstrap/ignored-variables.js';
import { hasSharedMasterKey, isMasterKeyMissing } from '../../../src/bootstrap/start-report.js';
import { VARIABLE_TYPES } from '../../../src/foundation/config/variables.js';
import { MASTER_KEY, SECRET_KEY } from '../../support/settings.js';
import { MAIL_VARIABLES } from '../../support/mail-server.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

const GOOD: Variables = { DATABASE_URL: 'postgresql://user:pw@localhost/auth', SECRET_KEY };
const WITH_MAIL: Variables = { ...MAIL_VARIABLES, MAIL_URL: 'smtp://localhost' };

function refusalOf(variables: Variables): string {
  try {
    parseEnvironment({ ...GOOD, ...variables });
  } catch (error) {
    if (error instanceof InvalidEnvironmentError) return error.message;
    throw error;
  }
  return 'accepted';
}

describe('the configuration', () => {
  it('has a default for everything but the database and the key', () => {
    expect(parseEnvironment(GOOD)).toMatchObject({
      nodeEnv: 'development',
      host: '127.0.0.1',
      port: 7701,
      accessTokenExpireMinutes: 15,
      refreshTokenExpireDays: 14,
      refreshGraceSeconds: 10,
      sessionMaxAgeDays: 90,
      bcryptCost: 12,
      passwordMinLength: 8,
      registration: 'open',
      validateNodeRequiresApp: false,
      trustProxy: false,
      adminApiKey: undefined,
      internalPort: undefined,
      metricsPort: undefined,
    });
    expect(parseEnvironment({ ...GOOD, NODE_ENV: 'production' })).toMatchObject({ host: '0.0.0.0' });
  });

  it('forces an exit 13 seconds after the delay of a stop', () => {
    expect(parseEnvironment(GOOD)).toMatchObject({ shutdownDelayMs: 0, shutdownDeadlineMs: 13_000 });
    const production = parseEnvironment({ ...GOOD, NODE_ENV: 'production' });
    expect(production).toMatchObject({ shutdownDelayMs: 2_000, shutdownDeadlineMs: 15_000 });
    expect(parseEnvironment({ ...GOOD, SHUTDOWN_DELAY_MS: '60000' }).shutdownDeadlineMs).toBe(73_000);
  });

  it('divides the hashing threads and the hashing queue among the workers', () => {
    const cores = availableParallelism();
    expect(parseEnvironment(GOOD)).toMatchObject({ workers: 1, hashThreads: cores, hashQueueLimit: 100 });
    const auto = { workers: cores, hashThreads: 1, hashQueueLimit: Math.ceil(100 / cores), databasePoolSize: 10 };
    expect(parseEnvironment({ ...GOOD, WORKERS: 'auto' })).toMatchObject(auto);
  });

  it('has one property for each variable, named after it', () => {
    const environment = parseEnvironment({ ...GOOD, REFRESH_LIMIT_PER_ADDRESS: '7/60', REGISTRATION: 'closed' });
    expect(environment).toMatchObject({
      refreshLimitPerAddress: { points: 7, seconds: 60 },
      registration: 'closed',
      isWorker: false,
    });
    const properties = Object.keys(environment).map((name) => name.toLowerCase());
    const variables = Object.keys(VARIABLE_TYPES).map((name) => name.replaceAll('_', '').toLowerCase());
    expect(properties).toEqual(expect.arrayContaining(variables));
  });

  it.each([
    ['a misspelt one', { DATABASE_URI: 'x' }, 'DATABASE_URI is not known (DATABASE_URL?)'],
    ['one in lower case', { secret_key_file: 'x' }, 'secret_key_file is not known (SECRET_KEY_FILE?)'],
    [
      'several',
      { WORKER: '2', DATABASE_URI: 'x' },
      'WORKER is not known (WORKERS?); DATABASE_URI is not known (DATABASE_URL?)',
    ],
  ])('names %s, which is ignored, and not its value', (_what, variables, sentence) => {
    expect(describeIgnoredVariables(variables, variables)).toBe(sentence);
  });

  it('does not name what other programs read, an empty variable, or a name whose likeness is set', () => {
    const others = {
      HOME: '/',
      HOSTNAME: 'a',
      POST: '1',
      PATH: '/bin',
      OTEL_SDK_DISABLED: 'true',
      AUTH_URL: 'http://a',
    };
    const ignored = (variables: Variables) => describeIgnoredVariables(variables, variables);
    expect(ignored({ ...others, ...GOOD, DATABASE_URI: '' })).toBeUndefined();
    expect(ignored({ MAIL_URL: 'smtp://a', EMAIL_URL: 'b' })).toBeUndefined();
  });

  it('names every unknown variable of our .env', () => {
    const file = { PROT: '7702', PORT: '7701', AUTH_URL: 'http://a', POSTGRES_PASSWORD: 'x' };
    expect(describeIgnoredVariables(file, {})).toBe('PROT in .env is not known');
  });

  const NOT_POSITIVE = ['0', '-1', 'abc', '1e9', '1.5', ' 15', '0x10', '999999999999', 'NaN'];
  const REFUSED: Readonly<Record<string, (string | undefined)[]>> = {
    SECRET_KEY: [
      undefined,
      '',
      'short-but-random-9f8e7d',
      'changeme-changeme-changeme-changeme',
      'your-secret-key-your-secret-key-your',
      'x'.repeat(64),
      '12345678901234567890123456789012',
      'TODO_generate_a_real_key_here_before_start',
      'change-this-secret-in-production-please-7',
    ],
    ADMIN_API_KEY: [
      'short-but-random-9f8e7d',
      'placeholder-placeholder-placeholder',
      'a blank in it, which no header may end with ',
      'ein-schlüssel-der-in-keine-kopfzeile-passt',
    ],
    DATABASE_URL: [undefined, 'mysql://user:hunter2@localhost/auth', 'hunter2'],
    ACCESS_TOKEN_EXPIRE_MINUTES: NOT_POSITIVE,
    REFRESH_TOKEN_EXPIRE_DAYS: NOT_POSITIVE,
    SESSION_MAX_AGE_DAYS: NOT_POSITIVE,
    PORT: ['65536'],
    WORKERS: ['0', '129', '-2', '2.5', '1e1', 'all', 'AUTO'],
    BCRYPT_COST: ['3', '99'],
    REGISTRATION: ['maybe'],
    VALIDATE_NODE_REQUIRES_APP: ['yes'],
    NODE_ENV: ['staging'],
    LOG_LEVEL: ['loud'],
    TRUST_PROXY: ['1.2.3', '10.0.0.0/99'],
    PASSWORD_BLOCKLIST: ['/', '/there/is/no/such/file'],
    LOGGING_SERVICE_URL: ['ftp://logs'],
    SECOND_FACTOR_REQUIRED: ['yes', '0', '2027-02-30', '2027-1-1', '01.02.2027', '2027-01-01T00:00:00Z'],
    SHUTDOWN_DELAY_MS: ['120001'],
    REVOCATION_LEASE_MS: ['1', '99', '5001', '-100', 'never'],
    LOGIN_LIMIT_PER_ACCOUNT: ['10', '0/900', '10/0', '10/86401', '-1/900', '1e3/900', '10 / 900'],
  };
  it.each(Object.entries(REFUSED).flatMap(([name, values]) => values.map((value) => [name, value])))(
    'refuses %s=%p, naming the variable but not its value',
    (name = '', value) => {
      const message = refusalOf({ [name]: value });
      expect(message).toContain(name);
      if (value && value.length > 5) expect(message).not.toContain(value);
    },
  );

  it.each([
    ['WEBAUTHN_RP_ID', { WEBAUTHN_RP_ID: 'https://example.org' }],
    ['WEBAUTHN_RP_ID', { NODE_ENV: 'production', WEBAUTHN_RP_ID: 'example.org' }],
    ['WEBAUTHN_RP_ID', { NODE_ENV: 'production', WEBAUTHN_ORIGINS: 'https://example.org' }],
    ['WEBAUTHN_ORIGINS', { WEBAUTHN_RP_ID: 'example.org', WEBAUTHN_ORIGINS: 'https://badexample.org' }],
    ['WEBAUTHN_ORIGINS', { WEBAUTHN_RP_ID: 'example.org', WEBAUTHN_ORIGINS: 'https://example.org/' }],
    ['INTERNAL_PORT must differ from PORT', { INTERNAL_PORT: '8000', PORT: '8000' }],
    ['METRICS_PORT must differ from PORT', { METRICS_PORT: '8000', PORT: '8000' }],
    // The rules between other variables are checked too when one is refused.
    ['METRICS_PORT must differ from INTERNAL_PORT', { PORT: 'x', METRICS_PORT: '8000', INTERNAL_PORT: '8000' }],
    ['DOCS must not be internal without INTERNAL_PORT', { DOCS: 'internal' }],
    ['MAIL_FROM must be set when MAIL_URL is', { ...WITH_MAIL, MAIL_FROM: '' }],
    ['PASSWORD_RESET_URL must be set when MAIL_URL is', { ...WITH_MAIL, PASSWORD_RESET_URL: '' }],
    ['EMAIL_VERIFICATION_URL must be set when MAIL_URL is', { ...WITH_MAIL, EMAIL_VERIFICATION_URL: '' }],
    ['REQUIRE_VERIFIED_EMAIL needs MAIL_URL in production', { NODE_ENV: 'production', REQUIRE_VERIFIED_EMAIL: 'true' }],
    [
      'REGISTRATION_ANSWER must not be uniform without MAIL_URL in production',
      { NODE_ENV: 'production', REGISTRATION_ANSWER: 'uniform' },
    ],
  ])('refuses values that do not fit each other: %s (%j)', (message, given) => {
    expect(refusalOf(given)).toContain(message);
  });

  it.each<Variables>([
    { INTERNAL_PORT: '8001', METRICS_PORT: '8002', PORT: '8000' },
    { INTERNAL_PORT: '0', METRICS_PORT: '0', PORT: '0', DOCS: 'internal' },
    { NODE_ENV: 'production', REQUIRE_VERIFIED_EMAIL: 'false' },
    { REQUIRE_VERIFIED_EMAIL: 'true' },
    { NODE_ENV: 'production', REGISTRATION_ANSWER: 'uniform', ...WITH_MAIL },
    { REGISTRATION_ANSWER: 'uniform' },
  ])('accepts values that fit each other: %j', (given) => {
    expect(refusalOf(given)).toBe('accepted');
  });

  it('has passkeys of localhost in development, and none in production', () => {
    const development = parseEnvironment({ ...GOOD, NODE_ENV: 'development', PORT: '8000' });
    expect(development).toMatchObject({ webauthnRpId: 'localhost', webauthnOrigins: ['http://localhost:8000'] });
    const production = parseEnvironment({ ...GOOD, NODE_ENV: 'production' });
    expect([production.webauthnRpId, production.webauthnOrigins]).toEqual([undefined, undefined]);
    const set = { WEBAUTHN_RP_ID: 'example.org', WEBAUTHN_ORIGINS: 'https://example.org,https://www.example.org' };
    expect(parseEnvironment({ ...GOOD, NODE_ENV: 'production', ...set }).webauthnOrigins).toHaveLength(2);
  });

  it.each([
    ['no MASTER_KEY', {}, true],
    ['a MASTER_KEY that is the SECRET_KEY', { MASTER_KEY: SECRET_KEY }, true],
    ['a MASTER_KEY of its own', { MASTER_KEY }, false],
    ['a former MASTER_KEY that is the SECRET_KEY', { MASTER_KEY, MASTER_KEY_PREVIOUS: SECRET_KEY }, true],
    ['a MASTER_KEY that is the former SECRET_KEY', { MASTER_KEY, SECRET_KEY_PREVIOUS: MASTER_KEY }, true],
    ['a SECRET_KEY that no other service needs', { ACCESS_TOKEN_ALGORITHM: 'ES256' }, false],
    ['a development', { NODE_ENV: 'development' }, false],
  ])('warns in production when dependents hold the master key: %s', (_what, variables, isShared) => {
    expect(hasSharedMasterKey(parseEnvironment({ ...GOOD, NODE_ENV: 'production', ...variables }))).toBe(isShared);
  });

  it.each([
    ['no MASTER_KEY', {}, true],
    ['a MASTER_KEY of its own', { MASTER_KEY }, false],
    ['production, which has a warning of its own', { NODE_ENV: 'production' }, false],
  ])('warns in development when SECRET_KEY stands in for the MASTER_KEY: %s', (_what, variables, isMissing) => {
    expect(isMasterKeyMissing(parseEnvironment({ ...GOOD, NODE_ENV: 'development', ...variables }))).toBe(isMissing);
  });

  it('derives from SECRET_KEY, and its former value, only without a MASTER_KEY', () => {
    const derived = (variables: Variables) => {
      const { masterKey, masterKeyPrevious } = parseEnvironment({ ...GOOD, ...variables });
      return [masterKey, masterKeyPrevious];
    };
    const SECRET_KEY_PREVIOUS = `${SECRET_KEY}-former`;
    expect(derived({ SECRET_KEY_PREVIOUS })).toEqual([SECRET_KEY, SECRET_KEY_PREVIOUS]);
    expect(derived({ SECRET_KEY_PREVIOUS, MASTER_KEY })).toEqual([MASTER_KEY, undefined]);
    expect(derived({ MASTER_KEY, MASTER_KEY_PREVIOUS: SECRET_KEY })).toEqual([MASTER_KEY, SECRET_KEY]);
  });

  it('reports every invalid variable at once', () => {
    const message = refusalOf({ SECRET_KEY: '', DATABASE_URL: '', PORT: 'x' });
    for (const name of ['SECRET_KEY', 'DATABASE_URL', 'PORT']) expect(message).toContain(name);
  });

  it.each([
    ['PORT', { PORT: 'abc' }],
    ['PORT', { PORT: '99999', WEBAUTHN_RP_ID: 'localhost' }],
    ['INTERNAL_PORT', { INTERNAL_PORT: 'abc', METRICS_PORT: 'abc' }],
    ['WEBAUTHN_ORIGINS', { WEBAUTHN_RP_ID: 'example.org', WEBAUTHN_ORIGINS: 'https://badexample.org/' }],
  ])('checks no rule between a refused %s and other variables', (name, given) => {
    const refused = Object.keys(given).filter((each) => each !== 'WEBAUTHN_RP_ID');
    const lines = refusalOf(given).split('\n').slice(1);
    expect(lines.map((line) => line.replace(/^ {2}- (\w+) .*/, '$1')).sort()).toEqual(refused.sort());
    expect(refused).toContain(name);
  });

  it.each([
    ['ACCESS_TOKEN_EXPIRE_MINUTES', '15', { accessTokenExpireMinutes: 15 }],
    ['TRUST_PROXY', 'false', { trustProxy: false }],
    ['TRUST_PROXY', 'true', { trustProxy: 1 }],
    ['TRUST_PROXY', '2', { trustProxy: 2 }],
    ['TRUST_PROXY', 'loopback, 10.0.0.0/8', { trustProxy: 'loopback, 10.0.0.0/8' }],
    ['TRUST_PROXY', 'fd00::/8', { trustProxy: 'fd00::/8' }],
    ['SECOND_FACTOR_REQUIRED', '2027-01-31', { secondFactorRequired: new Date('2027-01-31T00:00:00Z') }],
  ])('reads %s=%s', (name, value, expected) => {
    expect(parseEnvironment({ ...GOOD, [name]: value })).toMatchObject(expected);
  });

  describe('of a process with an environment file', () => {
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-variables-'));
    const file = join(folder, '.env');
    const given = { ...process.env };

    beforeAll(() => writeFileSync(file, `SECRET_KEY=${SECRET_KEY}\nHOST=\nPORT=1\nJWT_ISSUER=file\n`));

    afterEach(() => {
      process.env = { ...given };
    });

    afterAll(() => rmSync(folder, { recursive: true }));

    it('prefers the variables of the process to those of the file, and ignores empty ones of both', () => {
      Object.assign(process.env, { SECRET_KEY: '', PORT: '2', HOST: '' });
      const variables = readVariables(file);
      expect(variables).toMatchObject({ SECRET_KEY, PORT: '2', JWT_ISSUER: 'file' });
      expect(variables).not.toHaveProperty('HOST');
    });

    it('overrides a secret of the file, also when the process names a file for it', () => {
      process.env.SECRET_KEY_FILE = '/run/secrets/key';
      const variables = readVariables(file);
      expect(variables).toMatchObject({ SECRET_KEY_FILE: '/run/secrets/key', JWT_ISSUER: 'file' });
      expect(variables).not.toHaveProperty('SECRET_KEY');
    });

    it('does not read the file in production', () => {
      Object.assign(process.env, { NODE_ENV: 'production', PORT: '' });
      expect(readVariables(file)).not.toHaveProperty('PORT');
      expect(readVariables(file)).not.toHaveProperty('JWT_ISSUER');
    });
  });
});

const parseUrl = (url: string) => parseEnvironment({ ...GOOD, ...MAIL_VARIABLES, MAIL_URL: url }).mailUrl;

describe('MAIL_URL', () => {
  it.each([
    ['smtps://u:p@mail.example.org', 465, 'implicit'],
    ['smtp://mail.example.org', 587, 'starttls'],
    ['smtp://mail.example.org:25?tls=off', 25, 'off'],
    ['smtp://localhost', 587, 'off'],
    ['smtp://127.0.0.1:1025', 1025, 'off'],
    ['smtp://[::1]:1025', 1025, 'off'],
    ['smtp://127.0.0.1?tls=required', 587, 'starttls'],
    ['smtp://127.evil.example.org', 587, 'starttls'],
  ])('%s means port %i and TLS %s', (url, port, tls) => {
    expect(parseUrl(url)).toMatchObject({ port, tls });
  });

  it('has a percent-encoded user and password', () => {
    expect(parseUrl('smtps://user%40host:p%3A%2F@mail.example.org')?.login).toEqual({
      user: 'user@host',
      password: 'p:/',
    });
  });

  it.each([
    'mail.example.org',
    'http://mail.example.org',
    'smtp://',
    'smtp://u@mail.example.org',
    'smtp://u:canary%@mail.example.org',
    'smtp://mail.example.org/path',
    'smtp://mail.example.org?tls=maybe',
    'smtp://mail.example.org?ignoreTLS=true',
    'smtp://mail.example.org?tls=off&tls=required',
    'smtps://u:canary@mail.example.org?tls=off',
  ])('refuses %s by its name, and does not show it', (url) => {
    const problem = refusalOf({ ...MAIL_VARIABLES, MAIL_URL: url });
    expect(problem).toMatch(/^ {2}- MAIL_URL must be smtp/m);
    expect(problem).not.toMatch(/canary|mail\.example/);
  });

  it.each([
    ['MAIL_FROM', 'no address'],
    ['MAIL_FROM', 'A <a@example.org>, B <b@example.org>'],
    ['MAIL_FROM', 'A\r\nBcc: x <a@example.org>'],
    ['PASSWORD_RESET_URL', 'javascript:alert(1)'],
    ['PASSWORD_RESET_URL', 'https://app.example.org/#/reset'],
    ['EMAIL_VERIFICATION_URL', 'app.example.org'],
    ['MAIL_TEMPLATES_DIR', '/does/not/exist'],
  ])('%s refuses %j', (name, value) => {
    expect(refusalOf({ ...WITH_MAIL, [name]: value })).toContain(name);
  });
});

describe('DATABASE_URL', () => {
  const refusalOfUrl = (url: string): string => refusalOf({ DATABASE_URL: url });

  const SEVERAL_HOSTS = /DATABASE_URL names several hosts.*HAProxy.*PgBouncer in session mode.*deploy\/ha/s;
  it.each([
    ['postgresql://u:hunter2@db1:5432,db2:5432/auth', SEVERAL_HOSTS],
    ['postgresql://u:hunter2@db1,db2/auth', SEVERAL_HOSTS],
    ['postgres://db1,db2', SEVERAL_HOSTS],
    ['postgresql://u:hunter2@[::1]:5432,[::2]:5432/auth?sslmode=disable', SEVERAL_HOSTS],
    ['postgresql://u:hunter2@/auth?host=db1,db2', SEVERAL_HOSTS],
    ['postgresql://u:hunter2@db1/auth?port=5432,5433', SEVERAL_HOSTS],
    // It may be a part of a password.
    ['postgresql://user:12?hunter2@db/auth', /DATABASE_URL has a parameter that this service does not know/],
    ['postgresql://u@db/auth?sslmode=disable&sslmode=verify-full', /sslmode more than once/],
    ['postgresql://u@db/auth?sslmode=allow', /an sslmode other than/],
    ['postgresql://u@db/auth?sslmode=disable#hunter2', /contains a #/],
    ['postgresql://u@db/auth?ssl=false', /has an ssl that the driver does not understand: use sslmode/],
  ])('that the driver does not understand is refused, with what to use instead: %s', (url, reason) => {
    const refusal = refusalOfUrl(url);
    expect(refusal).toMatch(reason);
    expect(refusal).not.toContain('hunter2');
  });

  it.each([
    ['target_session_attrs=read-write', 'primary'],
    ['connect_timeout=3', 'fixed timeout'],
    ['statement_timeout=0', 'fixed timeout'],
    ['query_timeout=0', 'fixed timeout'],
    ['keepalives_idle=10', 'keepalive'],
    ['channel_binding=require', 'verify-full'],
    ['dbname=auth', 'behind the host'],
    ['hostaddr=127.0.0.1', 'as the host'],
    ['gssencmode=prefer', 'GSSAPI'],
    ['load_balance_hosts=random', 'primary'],
  ])(
    'with the parameter %s, which the driver ignores or lets override the service, is refused by name',
    (parameter, instead) => {
      const [name = ''] = parameter.split('=');
      const refusal = refusalOfUrl(`postgresql://u:hunter2@db/auth?sslmode=verify-full&${parameter}`);
      expect(refusal).toMatch(new RegExp(`DATABASE_URL has ${name}, .*${instead}`));
      expect(refusal).not.toContain('hunter2');
    },
  );

  it.each([
    'postgresql://u:a,b%40c@db/auth',
    'postgresql://u:p@[::1]:5432/auth?sslmode=disable',
    'postgresql:///auth?host=/var/run/postgresql',
    'postgresql://u:p@localhost:5433/auth?host=/var/run/postgresql',
    'postgresql://u:p@%2Fvar%2Frun%2Fpostgresql:5433/auth',
    'postgresql://u@db/auth?ssl=0',
    'postgres://u@db/auth?sslmode=verify-full&sslrootcert=/etc/ca.pem&application_name=auth&options=-c%20work_mem%3D8MB',
  ])('is accepted: %s', (url) => {
    expect(refusalOfUrl(url)).toBe('accepted');
  });

  describe('that is accepted', () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await createTestDatabase();
    });
    afterAll(() => database.drop());

    it.each([
      ['application_name=from-the-url', 'application_name', 'from-the-url'],
      ['fallback_application_name=from-the-url', 'application_name', 'from-the-url'],
      ['options=-c%20search_path%3Dpg_catalog', 'search_path', 'pg_catalog'],
    ])('is honoured by the driver: %s', async (parameter, setting, expected) => {
      const client = new Client({ connectionString: `${database.url}?${parameter}` });
      await client.connect();
      const { rows } = await client.query(`SELECT current_setting($1) AS value`, [setting]);
      expect(rows).toEqual([{ value: expected }]);
      await client.end();
    });
  });
});
