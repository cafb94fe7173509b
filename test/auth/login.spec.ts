import { expectInvalid } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

describe('POST /api/v0/auth/login', () => {
  const app = useApp();

  it('returns a token pair with Cache-Control: no-store', async () => {
    const alice = await app.user();
    const answer = await app.login(alice.email).expect(200);
    expect(answer.body).toEqual({
      access_token: expect.any(String),
      refresh_token: expect.stringMatching(/^pa_rt_/),
      token_type: 'Bearer',
      expires_in: 900,
    });
    expect(answer.headers['cache-control']).toBe('no-store');
  });

  it('accepts the e-mail address in any letter case', async () => {
    const alice = await app.user('Casey@Example.org');
    expect(alice.email).toBe('Casey@Example.org');
    await app.login('cASEY@eXAMPLE.ORG').expect(200);
  });

  it.each([
    ['a lone surrogate', '"eight ch\\ud800"'],
    ['a number', '12345678'],
    ['nothing', '""'],
    ['null', 'null'],
    ['true', 'true'],
    ['257 characters', `"${'x'.repeat(257)}"`],
    ['257 characters of four bytes', `"${'🌲'.repeat(257)}"`],
    ['a list', '["eight characters"]'],
    ['an object', '{"toString":"eight characters"}'],
  ])('answers 400 to %s as a password', async (_name, json) => {
    const body = `{"email":"alice@example.org","password":${json}}`;
    for (const door of ['login', 'register']) {
      const answer = await app.post(`/api/v0/auth/${door}`).set('Content-Type', 'application/json').send(body);
      expectInvalid(answer, '/password');
    }
  });

  it.each([
    'a\u0000@example.org',
    'ａlice@example.org',
    'alice@example\uff0eorg',
    'al\u200bice@example.org',
    'al\u202eice@example.org',
    'alice\ufeff@example.org',
    '\u212aate@example.org',
    'al\u0131ce@example.org',
    '\u0430lice@example.org',
    ' alice@example.org',
    'alice@example.org\n',
    `${'a'.repeat(250)}@x.org`,
    'x',
    '',
    7,
    null,
    ['alice@example.org'],
  ])('answers 400 to %p as an e-mail address', async (email) => {
    expectInvalid(await app.post('/api/v0/auth/login', { email, password: PASSWORD }), '/email');
    expectInvalid(await app.post('/api/v0/auth/register', { email, password: PASSWORD }), '/email');
  });

  it.each(['id', 'remember', '__proto__', 'constructor'])('answers 400 to a field named %s', async (field) => {
    const alice = await app.user();
    const body = `{"email":"${alice.email}","password":"${PASSWORD}","${field}":"x"}`;
    const answer = await app.post('/api/v0/auth/login').set('Content-Type', 'application/json').send(body);
    expectInvalid(answer, `/${field}`);
  });

  it('starts a separate session at every login', async () => {
    const alice = await app.user();
    const [one, two] = [await alice.logsIn(), await alice.logsIn()];
    await app.logout(one.refresh_token).expect(204);
    await app.me(two.access_token).expect(200);
    await app.refresh(two.refresh_token).expect(200);
  });

  it('accepts 50 concurrent logins of one account', async () => {
    const alice = await app.user();
    const answers = await Promise.all(Array.from({ length: 50 }, () => app.login(alice.email)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });
});
