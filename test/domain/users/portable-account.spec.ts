import { randomUUID } from 'node:crypto';
import { HashingThreads } from '../../../src/domain/passwords/hashing-threads.js';
import {
  parseAccountLine,
  recognizeFormat,
  type LineFormat,
  RefusedLineError,
} from '../../../src/domain/users/account-transfer.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { atOnce } from '../../support/at-once.js';
import { expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';
import { type ForeignVector, LONG, VECTORS } from './foreign-hashes.js';

const NOW = new Date('2026-11-22T00:00:00.000Z');
const HASH = '$2b$05$gXugN50ySoA1kNe3I.XOKu9UVZlqdVseplH2dLobW7tKbEF1GXVOu';
const SALT = 'c2FsdHNhbHRzYWx0';
const DIGEST = 'avVGt5+HC0VN/rlUOv/nBktF2xn8SNwPfzN9Bu7bTjw';
const HEX = Buffer.from(DIGEST, 'base64').toString('hex');

const line = (fields: object): string => JSON.stringify({ email: 'alice@example.org', password_hash: HASH, ...fields });

/** @returns the code of the refusal */
function refusalOf(text: string, format: LineFormat = 'json'): string {
  try {
    parseAccountLine(text, NOW, format);
  } catch (error) {
    if (!(error instanceof RefusedLineError)) throw error;
    expect(error.message).not.toMatch(/\$2.\$\d|SECRET|alice/);
    return error.code;
  }
  return 'accepted';
}

describe('a line of an import', () => {
  it('needs an address and a hash, and takes a UUID, a state and a time', () => {
    expect(parseAccountLine(line({}), NOW)).toMatchObject({
      email: 'alice@example.org',
      isActive: true,
      isEmailVerified: false,
      createdAt: NOW,
    });
    const id = '01985F4E-7C3A-7B52-9D1E-2F6A8C4B0D11';
    const all = { id, is_active: false, email_verified: true, created_at: '2020-01-02T03:04:05+02:00' };
    expect(parseAccountLine(line(all), NOW)).toMatchObject({
      id: id.toLowerCase(),
      isActive: false,
      isEmailVerified: true,
      createdAt: new Date('2020-01-02T01:04:05.000Z'),
    });
  });

  it('may name households with a role, and no others', () => {
    const id = '5B1C7A9E-0D35-4C8E-9A57-6F0B1F4F2A10';
    const { households } = parseAccountLine(line({ households: [{ id, role: 'member' }] }), NOW);
    expect(households).toEqual([{ id: id.toLowerCase(), name: null, role: 'member' }]);
    for (const wrong of [
      'x',
      [{ id }],
      [{ id, role: 'owner' }],
      [{ id: 'x', role: 'admin' }],
      [{ id, role: 'admin', a: 1 }],
    ])
      expect(refusalOf(line({ households: wrong }))).toBe('households_invalid');
    const many = (length: number) => Array.from({ length }, () => ({ id: randomUUID(), role: 'member' }));
    expect(parseAccountLine(line({ households: many(100) }), NOW).households).toHaveLength(100);
    expect(refusalOf(line({ households: many(101) }))).toBe('households_invalid');
  });

  it.each([
    ['empty text', ''],
    ['spaces', '   '],
    ['a NUL', 'ho\0me'],
    ['a line feed', 'ho\nme'],
    ['a right-to-left override', 'ho\u202eme'],
    ['a lone surrogate', 'ho\ud800me'],
    ['101 characters', 'x'.repeat(101)],
    ['a number', 7],
  ])('is refused with %s as the name of a household', (_what, name) => {
    const households = [{ id: randomUUID(), name, role: 'member' }];
    expect(refusalOf(line({ households }))).toBe('households_invalid');
  });

  it('may name a household with 100 characters, each of which may be two code units of UTF-16', () => {
    const households = [{ id: randomUUID(), name: '🏠'.repeat(100), role: 'member' }];
    expect(parseAccountLine(line({ households }), NOW).households).toEqual(households);
  });

  it.each(['\0', '\ud800'])('is refused when any text in it contains %j', (hostile) => {
    const id = randomUUID();
    const texts = {
      id: `${id}${hostile}`,
      email: `a${hostile}@example.org`,
      password_hash: `${HASH}${hostile}`,
      made_by: `platform-auth${hostile}`,
      created_at: `2020-01-02T03:04:05Z${hostile}`,
      [`x${hostile}`]: 'x',
    };
    for (const [name, text] of Object.entries(texts)) expect(refusalOf(line({ [name]: text }))).not.toBe('accepted');
    const household = { id, name: 'home', role: 'member' };
    for (const [name, text] of Object.entries(household))
      expect(refusalOf(line({ households: [{ ...household, [name]: `${text}${hostile}` }] }))).toBe(
        'households_invalid',
      );
    const keycloak = (value: string, salt: string) =>
      line({
        password_hash: {
          secretData: JSON.stringify({ value, salt }),
          credentialData: '{"hashIterations":27500,"algorithm":"pbkdf2-sha256"}',
        },
      });
    expect(refusalOf(keycloak(DIGEST, SALT))).toBe('accepted');
    expect(refusalOf(keycloak(`${DIGEST}${hostile}`, SALT))).toBe('hash_malformed');
    expect(refusalOf(keycloak(DIGEST, `${SALT}${hostile}`))).toBe('hash_malformed');
  });

  it('has its address made canonical, as registration does', () => {
    expect(parseAccountLine(line({ email: 'Alice@Example.ORG' }), NOW).email).toBe('alice@example.org');
  });

  it('marks $2b$ hashes as foreign, unless this service made them', () => {
    expect(parseAccountLine(line({}), NOW).passwordHash).toBe(HASH.replace('$2b$', '$2y$'));
    expect(parseAccountLine(line({ made_by: 'platform-auth' }), NOW).passwordHash).toBe(HASH);
  });

  it.each([undefined, null, '', '!1lO7XZ7a4c22MDPQWdmg963EK7r4vHPcYorIMhAU'])(
    'may have no hash (%j; the last one is what Django writes)',
    (password_hash) => {
      const { passwordHash } = parseAccountLine(line({ password_hash }), NOW);
      expect(passwordHash).toBe('!');
    },
  );

  it('takes every hash that this service makes, up to the highest BCRYPT_COST', () => {
    const exported = { password_hash: HASH.replace('$05$', '$16$'), made_by: 'platform-auth' };
    expect(refusalOf(line(exported))).toBe('accepted');
    const beyond = { ...exported, password_hash: HASH.replace('$05$', '$17$') };
    expect(refusalOf(line(beyond))).toBe('hash_out_of_bounds');
  });

  it.each([
    ['text that is not JSON', 'SECRET', 'not_json'],
    ['a list', '[]', 'not_json'],
    ['null', 'null', 'not_json'],
    ['an unknown field', line({ SECRET: 1 }), 'unknown_field'],
    ['no address', '{"password_hash":"x"}', 'email_invalid'],
    ['an address with full-width letters', line({ email: 'ａlice@example.org' }), 'email_invalid'],
    ['an address with a quoted name', line({ email: '"alice"@example.org' }), 'email_invalid'],
    ['an address without a domain', line({ email: 'alice' }), 'email_invalid'],
    ['an address that is too long', line({ email: `${'a'.repeat(250)}@example.org` }), 'email_invalid'],
    ['a hash that is a number', line({ password_hash: 1 }), 'password_hash_invalid'],
    ['a hash of 2,000 characters', line({ password_hash: 'x'.repeat(2_000) }), 'password_hash_invalid'],
    ['an id that is not a UUID', line({ id: '7' }), 'id_invalid'],
    ['a state that is text', line({ is_active: 'true' }), 'is_active_invalid'],
    ['a proof of the address that is text', line({ email_verified: 'true' }), 'email_verified_invalid'],
    ['a time without an offset', line({ created_at: '2020-01-02T03:04:05' }), 'created_at_invalid'],
    ['a time before 1970', line({ created_at: '1969-01-02T03:04:05Z' }), 'created_at_invalid'],
    ['a time in the future', line({ created_at: '2026-12-24T00:00:00Z' }), 'created_at_invalid'],
    ['another maker', line({ made_by: 'SECRET' }), 'made_by_invalid'],
  ])('is refused with %s', (_what, text, code) => {
    expect(refusalOf(text)).toBe(code);
  });
});

describe('a file of an import', () => {
  it('is CSV when its first line is a header, whose columns are the fields', () => {
    const format = recognizeFormat('email,password_hash,is_active,email_verified,created_at\r');
    const hash = `$argon2id$v=19$m=65536,t=3,p=4$${SALT}$${DIGEST}`;
    expect(
      parseAccountLine(`Alice@Example.org,"${hash}",false,true,2020-01-02T01:04:05Z\r`, NOW, format),
    ).toMatchObject({
      email: 'alice@example.org',
      passwordHash: hash,
      isActive: false,
      isEmailVerified: true,
      createdAt: new Date('2020-01-02T01:04:05.000Z'),
    });
    expect(parseAccountLine('bob@example.org,,,,', NOW, format)).toMatchObject({
      passwordHash: '!',
      isActive: true,
      isEmailVerified: false,
      createdAt: NOW,
    });
  });

  it.each([
    ['fewer fields than the header', 'alice@example.org', 'not_csv'],
    ['a hash with commas that is not quoted', `alice@example.org,$argon2id$v=19$m=8,t=1,p=1$${SALT}$SECRET`, 'not_csv'],
    ['a quote that does not end', 'alice@example.org,"SECRET', 'not_csv'],
    ['no address', `,${HASH}`, 'email_invalid'],
    ['a password', 'alice@example.org,SECRET', 'hash_unsupported'],
    ['a hash that is a boolean', 'alice@example.org,true', 'password_hash_invalid'],
  ])('has a line of CSV refused with %s', (_what, text, code) => {
    expect(refusalOf(text, recognizeFormat('email,password_hash'))).toBe(code);
  });

  it.each([
    ['CSV without a header', `alice@example.org,${HASH}`],
    ['CSV with an unknown column', 'email,SECRET'],
    ['CSV with a column twice', 'email,password_hash,email'],
    ['CSV without addresses', 'id,password_hash'],
    ['CSV with semicolons', 'email;password_hash'],
    ['a JSON array', '['],
    ['a JSON array in one line', `[${line({})}]`],
    ['a JSON object over several lines', '{'],
    ['objects of another system', '{"_id":1,"email":"alice@example.org"}'],
    ['SQL', "INSERT INTO users VALUES ('alice@example.org')"],
    ['a line that cannot be read', undefined],
  ])('is refused as a whole by its first line: %s', (_what, text) => {
    const refused = expect.objectContaining({
      code: 'unknown_format',
      message: expect.stringMatching(/^(?!.*(alice|SECRET)).*: id, email, password_hash,/),
    });
    expect(() => recognizeFormat(text)).toThrow(refused);
  });
});

describe('a hash of another system', () => {
  const argon2 = (parameters: string, salt = SALT, digest = DIGEST): string =>
    `$argon2id$v=19$${parameters}$${salt}$${digest}`;
  const django = (iterations: number, digest = `${DIGEST}=`): string => `pbkdf2_sha256$${iterations}$salt$${digest}`;
  const bcrypt = (cost: string): string => HASH.replace('$05$', `$${cost}$`);
  const passlib = (parameters: string): string => {
    const bytes = HASH.slice('$2b$05$'.length);
    return `$bcrypt-sha256$${parameters}$${bytes.slice(0, 22)}$${bytes.slice(22)}`;
  };
  const scrypt = (n: number, r: number, p: number): string => `scrypt:${n}:${r}:${p}$salt$${HEX}`;
  const keycloak = (algorithm: string, hashIterations: unknown, salt = SALT): object => ({
    secretData: JSON.stringify({ value: `${DIGEST}=`, salt }),
    credentialData: JSON.stringify({ hashIterations, algorithm }),
  });

  it.each<[string, string | object, string]>([
    ['bcrypt of cost 4', bcrypt('04'), 'accepted'],
    ['bcrypt of cost 15', bcrypt('15'), 'accepted'],
    ['the argon2id of RFC 9106 for little memory', argon2('m=65536,t=3,p=4'), 'accepted'],
    ['argon2id with 128 MiB', argon2('m=131072,t=8,p=1'), 'accepted'],
    ['Django 6 (1,200,000 iterations)', django(1_200_000), 'accepted'],
    ['passlib bcrypt_sha256 of its default cost', passlib('v=2,t=2b,r=12'), 'accepted'],
    ['the scrypt of Werkzeug', scrypt(32_768, 8, 1), 'accepted'],
    ['the scrypt of Django 5', `scrypt$16384$salt$8$5$${DIGEST}=`, 'accepted'],
    ['scrypt with 128 MiB, twice', scrypt(131_072, 8, 2), 'accepted'],
    ['Werkzeug PBKDF2 (1,000,000 iterations)', `pbkdf2:sha256:1000000$salt$${HEX}`, 'accepted'],
    ['a salt of text that ends with =', `pbkdf2:sha256:1000$salt=$${HEX}`, 'accepted'],
    ['Keycloak with SHA-512 (210,000 iterations)', keycloak('pbkdf2-sha512', 210_000), 'accepted'],
    ['bcrypt of cost 3', bcrypt('03'), 'hash_out_of_bounds'],
    ['bcrypt of cost 16', bcrypt('16'), 'hash_out_of_bounds'],
    ['argon2id with more than 128 MiB', argon2('m=131073,t=1,p=1'), 'hash_out_of_bounds'],
    ['argon2id with too little memory for its lanes', argon2('m=31,t=1,p=4'), 'hash_out_of_bounds'],
    ['argon2id with 65 passes', argon2('m=8,t=65,p=1'), 'hash_out_of_bounds'],
    ['argon2id with many passes over much memory', argon2('m=131072,t=9,p=1'), 'hash_out_of_bounds'],
    ['argon2id with 17 lanes', argon2('m=65536,t=1,p=17'), 'hash_out_of_bounds'],
    ['argon2id with no pass', argon2('m=65536,t=0,p=1'), 'hash_out_of_bounds'],
    ['argon2id with a salt of 6 bytes', argon2('m=65536,t=1,p=1', 'c2FsdHNh'), 'hash_out_of_bounds'],
    ['argon2id with a hash of 12 bytes', argon2('m=65536,t=1,p=1', SALT, SALT), 'hash_out_of_bounds'],
    ['Django with 2,500,001 iterations', django(2_500_001), 'hash_out_of_bounds'],
    ['Django with 0 iterations', django(0), 'hash_out_of_bounds'],
    ['passlib with 2,500,001 iterations', `$pbkdf2$2500001$${SALT}$${DIGEST}`, 'hash_out_of_bounds'],
    ['passlib with a salt of 6 bytes', `$pbkdf2-sha256$1000$c2FsdHNh$${DIGEST}`, 'hash_out_of_bounds'],
    ['passlib bcrypt_sha256 of cost 16', passlib('v=2,t=2b,r=16'), 'hash_out_of_bounds'],
    ['passlib bcrypt_sha256 of cost 31', passlib('2a,31'), 'hash_out_of_bounds'],
    ['passlib bcrypt_sha256 of an unknown version', passlib('v=3,t=2b,r=5'), 'hash_malformed'],
    ['Django bcrypt_sha256 of cost 16', `bcrypt_sha256$${bcrypt('16')}`, 'hash_out_of_bounds'],
    ['Django argon2 with more than 128 MiB', `argon2${argon2('m=131073,t=1,p=1')}`, 'hash_out_of_bounds'],
    ['Werkzeug with 2,500,001 iterations', `pbkdf2:sha256:2500001$salt$${HEX}`, 'hash_out_of_bounds'],
    ['Werkzeug with a hash that is not hexadecimal', `pbkdf2:sha256:1000$salt$${DIGEST}`, 'hash_malformed'],
    ['Werkzeug with MD5', `pbkdf2:md5:1000$salt$${HEX}`, 'hash_unsupported'],
    ['scrypt with 256 MiB', scrypt(262_144, 8, 1), 'hash_out_of_bounds'],
    ['scrypt with 128 MiB, three times', scrypt(131_072, 8, 3), 'hash_out_of_bounds'],
    ['scrypt with an N that is not a power of two', scrypt(32_767, 8, 1), 'hash_out_of_bounds'],
    ['scrypt with N = 1', scrypt(1, 8, 1), 'hash_out_of_bounds'],
    ['scrypt with r = 1', scrypt(65_536, 1, 1), 'hash_out_of_bounds'],
    ['scrypt with r = 33', scrypt(2, 33, 1), 'hash_out_of_bounds'],
    ['scrypt with p = 17', scrypt(2, 8, 17), 'hash_out_of_bounds'],
    ['Django scrypt beyond the bounds', `scrypt$1048576$salt$8$1$${DIGEST}=`, 'hash_out_of_bounds'],
    ['scrypt without a hash', 'scrypt:32768:8:1$salt$', 'hash_malformed'],
    ['PBKDF2 whose key is two blocks long', django(2_500_000, 'A'.repeat(64)), 'hash_out_of_bounds'],
    ['Keycloak with 2,500,001 iterations', keycloak('pbkdf2-sha512', 2_500_001), 'hash_out_of_bounds'],
    ['Keycloak with half an iteration', keycloak('pbkdf2-sha256', 0.5), 'hash_malformed'],
    ['Keycloak with 1e99 iterations', keycloak('pbkdf2-sha256', 1e99), 'hash_malformed'],
    ['Keycloak with iterations that are text', keycloak('pbkdf2-sha256', '27500'), 'hash_malformed'],
    ['Keycloak with a salt that is not base64', keycloak('pbkdf2-sha256', 1, 'c2Fs!!!!dHNhbHRzYWx0'), 'hash_malformed'],
    ['Keycloak with SHA-1', keycloak('pbkdf2', 20_000), 'hash_unsupported'],
    ['Keycloak without JSON', { secretData: 'SECRET', credentialData: '{}' }, 'hash_malformed'],
    ['argon2i', argon2('m=65536,t=3,p=4').replace('argon2id', 'argon2i'), 'hash_unsupported'],
    ['argon2id of version 16', argon2('m=65536,t=3,p=4').replace('v=19', 'v=16'), 'hash_malformed'],
    ['argon2id with a data field', argon2('m=65536,t=3,p=4,data=SECRET'), 'hash_malformed'],
    ['argon2id that is not base64', argon2('m=65536,t=3,p=4', 'c2Fs dHNh'), 'hash_malformed'],
    ['$2x$, which PHP marks as broken', HASH.replace('$2b$', '$2x$'), 'hash_unsupported'],
    ['bcrypt that was cut', HASH.slice(0, -1), 'hash_malformed'],
    [
      'bcrypt with padding bits that no verification writes',
      HASH.replace(/OKu/, 'OKz').replace(/u$/, 'v'),
      'hash_malformed',
    ],
    ['a password', 'SECRET', 'hash_unsupported'],
  ])('is accepted within the bounds, and refused otherwise: %s', (_what, password_hash, code) => {
    expect(refusalOf(line({ password_hash }))).toBe(code);
  });
});

describe('an account with a hash that another system made', () => {
  const app = useApp({ variables: UNLEASED });

  const importHash = async (hash: ForeignVector['hash'] | null, madeBy?: string): Promise<string> => {
    const email = `${randomUUID()}@example.org`;
    const text = JSON.stringify({ email, password_hash: hash, made_by: madeBy });
    const { id, passwordHash } = parseAccountLine(text, new Date());
    await app.database.query(
      'INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at) VALUES ($1, $2, $3, true, now(), now())',
      [id, email, passwordHash],
    );
    return email;
  };
  const hashOf = async (email: string): Promise<string> => {
    const rows = await app.database.query<{ hash: string }>(
      'SELECT password_hash AS hash FROM users WHERE email = $1',
      [email],
    );
    return rows[0]!.hash;
  };

  /** What the worker threads did for a login that is refused. */
  const tasksOfRefusedLogin = async (email: string, password: string): Promise<string[]> => {
    const run = jest.spyOn(HashingThreads.prototype, 'run');
    try {
      expectProblem(await app.login(email, password), problems.invalidCredentials);
      return run.mock.calls.map(([{ name }]) => name);
    } finally {
      run.mockRestore();
    }
  };

  it.each(
    VECTORS.map((vector): [string, ForeignVector] => [`${vector.madeBy}: ${vector.password.slice(0, 21)}`, vector]),
  )('logs in with its password and no other, and then has a hash of ours (%s)', async (_name, { password, hash }) => {
    const email = await importHash(hash);
    const imported = await hashOf(email);
    for (const wrong of [`!${password}`, password.toUpperCase()])
      expectProblem(await app.login(email, wrong), problems.invalidCredentials);
    expect(await hashOf(email)).toBe(imported);
    await app.login(email, password).expect(200);
    expect(await hashOf(email)).toMatch(/^\$2b\$04\$/);
    await app.login(email, password).expect(200);
    expectProblem(await app.login(email, `${password}x`), problems.invalidCredentials);
  });

  it('is truncated at 72 bytes by bcrypt until the first login, and compared in full from then on', async () => {
    const bcrypt = VECTORS.find(({ madeBy, password }) => madeBy === 'passlib $2b$' && password === LONG)!;
    const email = await importHash(bcrypt.hash);
    await app.login(email, `${'x'.repeat(72)} and another end`).expect(200);
    expectProblem(await app.login(email, LONG), problems.invalidCredentials);
  });

  it.each(VECTORS.filter(({ madeBy, password }) => madeBy.includes('bcrypt_sha256') && password === LONG))(
    'is compared in full where the other system hashed the password before bcrypt ($madeBy)',
    async ({ hash }) => {
      const email = await importHash(hash);
      expectProblem(await app.login(email, `${LONG}x`), problems.invalidCredentials);
      await app.login(email, LONG).expect(200);
    },
  );

  it('has no password that works without a hash: a login is answered as for an unknown account, and costs the same', async () => {
    const email = await importHash(null);
    const unknown = `${randomUUID()}@example.org`;
    for (const password of ['!', 'wrong'])
      expect(await tasksOfRefusedLogin(email, password)).toEqual(await tasksOfRefusedLogin(unknown, password));
  });

  it('gets in without a hash by a reset of the password', async () => {
    const email = await importHash(null);
    const [user] = await app.database.query<{ id: string }>('SELECT id FROM users WHERE email = $1', [email]);
    const explain = () => app.admin.get(`/users/${user!.id}/explain`).expect(200);
    expect((await explain()).body).toMatchObject({
      accepted_now: false,
      reasons: [{ code: 'no_password', until: null }],
    });
    const { body } = await app.admin.post(`/users/${user!.id}/password-reset`, {}).expect(201);
    const reset = { token: (body as { token: string }).token, new_password: 'quite another passphrase' };
    await app.post('/api/v0/auth/password-reset/confirm', reset).expect(204);
    await app.login(email, reset.new_password).expect(200);
    expect((await explain()).body).toMatchObject({ accepted_now: true, reasons: [] });
  });

  it('refuses a password with a NUL, which other systems cut there', async () => {
    const { hash, password } = VECTORS[1]!;
    expectProblem(await app.login(await importHash(hash), `${password}\0`), problems.invalidCredentials);
  });

  it('keeps the reduction of long passwords when this service made the hash', async () => {
    const alice = await app.user(undefined, LONG);
    const email = await importHash(await hashOf(alice.email), 'platform-auth');
    await app.login(email, LONG).expect(200);
    expectProblem(await app.login(email, `${LONG}x`), problems.invalidCredentials);
    expectProblem(await app.login(await importHash(await hashOf(alice.email)), LONG), problems.invalidCredentials);
  });

  it('is verified in a worker thread, and a wrong password costs one verification', async () => {
    for (const name of ['passlib $2a$', 'Werkzeug scrypt', 'passlib bcrypt_sha256 v2', 'Django argon2']) {
      const { hash } = VECTORS.find(({ madeBy }) => madeBy === name)!;
      expect(await tasksOfRefusedLogin(await importHash(hash), 'wrong')).toEqual(['verifyForeign']);
    }
  });

  it('is logged in by concurrent logins, all of which succeed', async () => {
    const { hash, password } = VECTORS.find(({ madeBy }) => madeBy === 'argon2-cffi')!;
    const email = await importHash(hash);
    const answers = await atOnce(20, () => app.login(email, password));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await hashOf(email)).toMatch(/^\$2b\$04\$/);
  });

  it.each([
    [
      'beyond the bounds',
      '$argon2id$v=19$m=4194304,t=100,p=1$c2FsdHNhbHRzYWx0$avVGt5+HC0VN/rlUOv/nBktF2xn8SNwPfzN9Bu7bTjw',
    ],
    ['of a cost beyond the bounds', '$2y$31$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq'],
    ['unreadable', 'nonsense'],
    ['and cut', '$2b$nonsense'],
  ])(
    'whose hash another hand wrote %s costs the same as an unknown account, and matches no password',
    async (_why, hash) => {
      const email = await importHash(VECTORS[0]!.hash);
      await app.database.query('UPDATE users SET password_hash = $2 WHERE email = $1', [email, hash]);
      expect(await tasksOfRefusedLogin(email, VECTORS[0]!.password)).toEqual(['verify']);
    },
  );

  it('may change its password without a login in between', async () => {
    const { hash, password } = VECTORS.find(({ madeBy }) => madeBy === 'Django')!;
    const email = await importHash(hash);
    const { body } = await app.login(email, password).expect(200);
    await app.database.query('UPDATE users SET password_hash = $2 WHERE email = $1', [email, hash]);
    const change = { current_password: password, new_password: 'quite another passphrase' };
    const bearer = `Bearer ${(body as { access_token: string }).access_token}`;
    await app.post('/api/v0/users/me/password', change).set('Authorization', bearer).expect(204);
    await app.login(email, change.new_password).expect(200);
  });
});
