import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';
import type { User } from '../../support/test-app.js';

const app = useApp({ variables: UNLEASED });

describe('POST /api/v0/auth/register', () => {
  const register = (body: object) => app.post('/api/v0/auth/register', body);
  const usersNamed = (email: string) => app.database.query('SELECT * FROM users WHERE email = $1', [email]);

  it('creates an active user and does not return the password hash', async () => {
    const { body } = await register({ email: 'new@example.org', password: PASSWORD }).expect(201);
    const time = expect.stringMatching(/^\d{4}-.*Z$/) as unknown;
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      email: 'new@example.org',
      is_active: true,
      created_at: time,
      updated_at: time,
    });
  });

  it('answers 400 without a password', async () => {
    expectInvalid(await register({ email: `${randomUUID()}@example.org` }), '/password');
  });

  it('accepts exactly one of 50 concurrent registrations that differ only in case, over two replicas', async () => {
    const replica = await app.startReplica();
    const email = `${randomUUID()}@example.org`;
    const spelled = (i: number): string =>
      Array.from(email, (c, at) => ((i >> (at % 6)) & 1 ? c.toUpperCase() : c)).join('');
    const answers = await atOnce(50, (i) =>
      (i % 2 ? app : replica).post('/api/v0/auth/register', { email: spelled(i), password: PASSWORD }),
    );
    const losers = answers.filter(({ status }) => status !== 201);
    expect(losers).toHaveLength(49);
    for (const loser of losers) expectProblem(loser, problems.emailTaken);
    expect(await usersNamed(email)).toHaveLength(1);
    await replica.stop();
  });

  it.each(['"alice"@x.org', '"al ice"@x.org', '"a@b"@x.org'])(
    'refuses %s: a quoted name is another spelling of a mailbox (RFC 5321)',
    async (email) => {
      expectInvalid(await register({ email, password: PASSWORD }), '/email');
      expectInvalid(await app.admin.post('/users', { email, password: PASSWORD }), '/email');
      expect(await usersNamed(email)).toEqual([]);
    },
  );

  it('leaves accounts with a quoted name that exist as they are', async () => {
    const [user, email] = [await app.user(), `"${randomUUID()}"@example.org`];
    await app.database.query('UPDATE users SET email = $2 WHERE id = $1', [user.id, email]);
    await app.login(email).expect(200);
    await app.post('/api/v0/auth/password-reset', { email }).expect(202);
    await app.admin.post('/users/search', { email }).expect(200);
  });

  it.each(['id', 'role', 'is_active', 'password_hash', '__proto__', 'constructor', 'prototype'])(
    'answers 400 to a field named %s, as a login does, and does not create the user',
    async (field) => {
      const email = `${randomUUID()}@example.org`;
      const json = `{"email":"${email}","password":"${PASSWORD}","${field}":"x"}`;
      for (const route of ['register', 'login'])
        expectInvalid(await app.post(`/api/v0/auth/${route}`).type('json').send(json), `/${field}`);
      expect(await usersNamed(email)).toEqual([]);
    },
  );

  it.each([
    ...'password 12345678 iloveyou Password qwertyuiop trustno1 admin123 88888888 AAAAAAAA 987654321'.split(' '),
    ...'87654321 123123123 12341234 xxxxxxxx 0987654321 1111111111 69696969 12121212'.split(' '),
  ])('answers 400 to the common password %s, with the reason', async (password) => {
    const answer = await register({ email: `${randomUUID()}@example.org`, password });
    expectInvalid(answer, '/password');
    expect(JSON.stringify(answer.body)).toMatch(/commonly used/);
  });

  it('measures a password in characters, not in bytes or code units', async () => {
    const email = `${randomUUID()}@example.org`;
    expectInvalid(await register({ email, password: '🌲'.repeat(7) }), '/password');
    expectInvalid(await register({ email, password: '🌲'.repeat(257) }), '/password');
    await register({ email, password: '🌲'.repeat(256) }).expect(201);
  });

  it('answers 403 while registration is closed, when operators can still create users', async () => {
    const closed = await app.startReplica({ variables: { REGISTRATION: 'closed' } });
    const body = { email: `${randomUUID()}@example.org`, password: PASSWORD };
    expectProblem(await closed.post('/api/v0/auth/register', body), problems.registrationClosed);
    await closed.admin.post('/users', body).expect(201);
    await closed.login(body.email).expect(200);
    await closed.stop();
  });

  it('applies the password rules of the configuration', async () => {
    const variables = { PASSWORD_MIN_LENGTH: '20', PASSWORD_BLOCKLIST: 'off' };
    const strict = await app.startReplica({ variables });
    const email = `${randomUUID()}@example.org`;
    expectInvalid(await strict.post('/api/v0/auth/register', { email, password: 'x'.repeat(19) }), '/password');
    await strict.post('/api/v0/auth/register', { email, password: 'x'.repeat(20) }).expect(201);
    await strict.stop();
  });

  it('answers the same on the path without /api/v0', async () => {
    await app.post('/auth/register', { email: `${randomUUID()}@example.org`, password: PASSWORD }).expect(201);
    expectProblem(
      await app.post('/auth/login', { email: 'x@example.org', password: PASSWORD }),
      problems.invalidCredentials,
    );
  });
});

describe('a password', () => {
  const expectOnly = async (user: User, others: string[]): Promise<void> => {
    for (const other of others) expectProblem(await app.login(user.email, other), problems.invalidCredentials);
    await app.login(user.email, user.password).expect(200);
  };
  it('is compared to its last byte, beyond the 72 bytes that bcrypt reads', async () => {
    const common = 'x'.repeat(72);
    await expectOnly(await app.user(undefined, `${common}a`), [`${common}b`, common, `${common}aa`]);
    await expectOnly(await app.user(undefined, common), [`${common}a`, 'x'.repeat(71)]);
    await expectOnly(await app.user(undefined, `${common.repeat(3)}a`), [`${common.repeat(3)}b`]);
    // The 73rd byte is the middle of a character.
    await expectOnly(await app.user(undefined, `${'x'.repeat(71)}é`), [`${'x'.repeat(71)}è`]);
    await expectOnly(await app.user(undefined, '🌲'.repeat(64)), ['🌲'.repeat(63), `${'🌲'.repeat(63)}🌳`]);
  });

  it('is compared beyond a NUL, where bcrypt stops reading', async () => {
    await expectOnly(await app.user(undefined, 'eight ch\0one'), ['eight ch\0two', 'eight ch', 'eight ch\0']);
    await expectOnly(await app.user(undefined, 'eight ch'), ['eight ch\0', 'eight ch\0one']);
    await expectOnly(await app.user(undefined, '\0first of all'), ['\0', '\0another']);
  });

  it('is compared as typed: neither trimmed, nor case-folded, nor normalised', async () => {
    await expectOnly(await app.user(undefined, ' Pass phrase of mine '), [
      'Pass phrase of mine',
      ' pass phrase of mine ',
      ' Pass  phrase of mine ',
    ]);
    await expectOnly(await app.user(undefined, 'caf\u00e9 au lait'), ['cafe\u0301 au lait', 'cafe au lait']);
  });

  it.each(['an ordinary phrase', 'y'.repeat(100), 'with a\0 NUL'])(
    'is stored as a standard bcrypt hash, which is not itself accepted: %p',
    async (password) => {
      const user = await app.user(undefined, password);
      const hash = await user.passwordHash();
      expect(hash).toMatch(/^\$2b\$04\$[./A-Za-z0-9]{53}$/);
      await expectOnly(user, [hash]);
    },
  );

  it('is salted: two users with the same password have different hashes', async () => {
    const [one, two] = [await app.user(), await app.user()];
    expect(one.password).toBe(two.password);
    expect(await one.passwordHash()).not.toBe(await two.passwordHash());
  });

  it('is refused when it is not valid UTF-8, because replacement characters would make two passwords equal', async () => {
    const email = `${randomUUID()}@example.org`;
    const send = (path: string, byte: number) =>
      app
        .post(`/api/v0/auth/${path}`)
        .set('Content-Type', 'application/json')
        // Sends the raw bytes.
        .serialize((bytes: unknown) => bytes as string)
        .send(Buffer.from(`{"email":"${email}","password":"eight ch${String.fromCharCode(byte)}"}`, 'latin1'));
    const answers = [await send('register', 0xff), await send('login', 0xfe)];
    expect(answers.map(({ status }) => status)).toEqual([400, 400]);
    for (const answer of answers) expectProblem(answer, problems.malformedRequest);
  });
});
