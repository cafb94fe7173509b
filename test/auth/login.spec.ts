import type { Response } from 'supertest';
import { problems } from '../../src/common/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD, TestApp } from '../support/test-app.js';

/** What a caller can see of an answer, without what names the single request. */
function visible({ status, headers, body }: Response) {
  const { request_id, instance, ...rest } = body as Record<string, unknown>;
  expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
  const { 'x-request-id': id, date, ...fixed } = headers as Record<string, string>;
  expect([typeof id, typeof date]).toEqual(['string', 'string']);
  return { status, fixed, rest };
}

describe('POST /api/v0/auth/login', () => {
  let app: TestApp;

  beforeAll(async () => {
    app = await TestApp.start();
  });

  afterAll(async () => {
    await app.stop();
  });

  it('answers with a token pair that nobody may keep in a cache', async () => {
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

  it('answers alike to an unknown address, a wrong password and a disabled account', async () => {
    const [alice, bob] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${bob.id}`, { is_active: false }).expect(200);
    const unknown = await app.login('nobody@example.org');
    const wrong = await app.login(alice.email, 'not her passphrase');
    const disabled = await app.login(bob.email);
    expectProblem(unknown, problems.invalidCredentials);
    expect(visible(wrong)).toEqual(visible(unknown));
    expect(visible(disabled)).toEqual(visible(unknown));
    const reasons = app.log.events('user.login.failed').map(({ reason }) => reason);
    expect(reasons).toEqual(['unknown', 'wrong_password', 'disabled']);
  });

  it('takes an address in any case', async () => {
    const alice = await app.user('Casey@Example.org');
    expect(alice.email).toBe('Casey@Example.org');
    await app.login('cASEY@eXAMPLE.ORG').expect(200);
  });

  it('tells apart passwords that differ only after bcrypt has stopped reading', async () => {
    const long = 'x'.repeat(72);
    const alice = await app.user(undefined, `${long}a`);
    await app.login(alice.email, `${long}a`).expect(200);
    expectProblem(await app.login(alice.email, `${long}b`), problems.invalidCredentials);
    expectProblem(await app.login(alice.email, long), problems.invalidCredentials);
    const withNul = await app.user(undefined, 'eight ch\0one');
    await app.login(withNul.email, 'eight ch\0one').expect(200);
    expectProblem(await app.login(withNul.email, 'eight ch\0two'), problems.invalidCredentials);
  });

  it('takes 64 characters of four bytes each', async () => {
    const alice = await app.user(undefined, '🌲'.repeat(64));
    await app.login(alice.email, '🌲'.repeat(64)).expect(200);
    expectProblem(await app.login(alice.email, '🌲'.repeat(63)), problems.invalidCredentials);
  });

  it.each([
    ['a lone surrogate', '"eight ch\\ud800"'],
    ['a number', '12345678'],
    ['nothing', '""'],
    ['null', 'null'],
    ['257 characters', `"${'x'.repeat(257)}"`],
    ['a list', '["eight characters"]'],
  ])('refuses %s as a password', async (_name, json) => {
    const body = `{"email":"alice@example.org","password":${json}}`;
    const answer = await app.post('/api/v0/auth/login').set('Content-Type', 'application/json').send(body);
    expectInvalid(answer, '/password');
  });

  it.each([
    'a\u0000@example.org',
    'ａlice@example.org',
    'al\u200bice@example.org',
    'al\u202eice@example.org',
    '\u212aate@example.org',
    'x',
    '',
    7,
  ])('refuses %p as an address', async (email) => {
    expectInvalid(await app.post('/api/v0/auth/login', { email, password: PASSWORD }), '/email');
    expectInvalid(await app.post('/api/v0/auth/register', { email, password: PASSWORD }), '/email');
  });

  it('passes 50 parallel logins of one account', async () => {
    const alice = await app.user();
    const answers = await Promise.all(Array.from({ length: 50 }, () => app.login(alice.email)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });
});

describe('a full password queue', () => {
  it('answers 503 with Retry-After, never a verdict', async () => {
    const app = await TestApp.start({ variables: { HASH_THREADS: '1', HASH_QUEUE_LIMIT: '1', BCRYPT_COST: '8' } });
    const alice = await app.user();
    const answers = await Promise.all(Array.from({ length: 30 }, () => app.login(alice.email)));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectProblem(answer, problems.hashingBusy);
    await app.login(alice.email).expect(200);
    await app.stop();
  });
});

describe('the cost of a stored hash', () => {
  it('is raised at the next login and never lowered', async () => {
    const app = await TestApp.start({ variables: { BCRYPT_COST: '5' } });
    const alice = await app.user();
    const hashOf = async () =>
      (
        await app.database.query<{ password_hash: string }>('SELECT password_hash FROM users WHERE id = $1', [alice.id])
      )[0]!.password_hash;
    const original = await hashOf();
    expect(original).toMatch(/^\$2b\$05\$/);
    const cheaper = await TestApp.start({ database: app.database, variables: { BCRYPT_COST: '4' } });
    await cheaper.login(alice.email).expect(200);
    expect(await hashOf()).toBe(original);
    const dearer = await TestApp.start({ database: app.database, variables: { BCRYPT_COST: '6' } });
    await dearer.login(alice.email).expect(200);
    expect(await hashOf()).toMatch(/^\$2b\$06\$/);
    await app.login(alice.email).expect(200);
    for (const each of [cheaper, dearer, app]) await each.stop();
  });
});
