import { randomUUID } from 'node:crypto';
import bcrypt from 'bcrypt';
import type { Response } from 'supertest';
import { atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { HashingThreads } from '../../../src/domain/passwords/hashing-threads.js';
import type { Verification } from '../../../src/domain/passwords/password.worker.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import type { User } from '../../support/test-app.js';

const COST = 5;
const ABSENT = 'unknown@example.org';
const app = useApp({ variables: { ...UNLEASED, BCRYPT_COST: String(COST) } });

describe('POST /api/v0/auth/login', () => {
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
});

/** What a caller sees of a response, without the ids of the request. */
function visible({ status, headers, body }: Response) {
  const { request_id, instance, ...rest } = body as Record<string, unknown>;
  expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
  const { 'x-request-id': id, date, ...fixed } = headers as Record<string, string>;
  expect([typeof id, typeof date]).toEqual(['string', 'string']);
  return { status, fixed, names: Object.keys(headers), rest };
}

describe('a refused login (against enumeration)', () => {
  let alice: User;
  let disabled: User;

  beforeAll(async () => {
    [alice, disabled] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
  });

  it.each([
    ['an ordinary password', 'not her passphrase'],
    ['one longer than bcrypt reads', 'x'.repeat(200)],
    ['one with a NUL', 'eight ch\0racters'],
    ['one shorter than the policy wants', 'x'],
    ['a common one', 'password'],
  ])(
    'returns the same response for an unknown address, a wrong password and a disabled account: %s',
    async (_name, guess) => {
      const unknown = await app.login(ABSENT, guess);
      expectProblem(unknown, problems.invalidCredentials);
      expect(visible(await app.login(alice.email, guess))).toEqual(visible(unknown));
      expect(visible(await app.login(disabled.email, guess))).toEqual(visible(unknown));
      expect(visible(await app.login(disabled.email))).toEqual(visible(unknown));
    },
  );

  it('names the reason in the log only', async () => {
    const before = app.log.events('user.login.failed').length;
    await app.login(ABSENT);
    await app.login(alice.email, 'not her passphrase');
    await app.login(disabled.email);
    const reasons = app.log.events('user.login.failed').map(({ reason }) => reason);
    expect(reasons.slice(before)).toEqual(['unknown', 'wrong_password', 'disabled']);
  });

  it('computes one bcrypt hash at the same cost for every reason', async () => {
    const run = jest.spyOn(HashingThreads.prototype, 'run');
    try {
      for (const email of [ABSENT, alice.email, disabled.email]) {
        run.mockClear();
        expectProblem(await app.login(email, 'not her passphrase'), problems.invalidCredentials);
        const work = run.mock.calls.map(([task]) => {
          const { name, passwordHash } = task as Verification;
          expect(passwordHash).toMatch(/^\$2b\$\d\d\$[./A-Za-z0-9]{53}$/);
          return { name, cost: bcrypt.getRounds(passwordHash) };
        });
        expect(work).toEqual([{ name: 'verify', cost: COST }]);
      }
    } finally {
      run.mockRestore();
    }
  });

  it('costs the same work for accounts whose hash is older than a raised BCRYPT_COST', async () => {
    const dearer = await app.startReplica({ variables: { BCRYPT_COST: String(COST + 3) } });
    const run = jest.spyOn(HashingThreads.prototype, 'run');
    try {
      for (const [email, cost] of [
        [ABSENT, COST + 3],
        [alice.email, COST],
        [disabled.email, COST],
      ] as const) {
        run.mockClear();
        expectProblem(await dearer.login(email, 'not her passphrase'), problems.invalidCredentials);
        const [task] = run.mock.calls.map(([each]) => each as Verification);
        const costs = [bcrypt.getRounds(task!.passwordHash), ...task!.padding];
        expect(costs[0]).toBe(cost);
        expect(costs.reduce((work, each) => work + 2 ** each, 0)).toBe(2 ** (COST + 3));
      }
    } finally {
      run.mockRestore();
      await dearer.stop();
    }
  });
});

const BUSY = problems.hashingBusy;

describe('a full hashing queue', () => {
  const app = useApp({ variables: { ...UNLEASED, BCRYPT_COST: '9' }, settings: { hashThreads: 1, hashQueueLimit: 1 } });

  it.each([
    ['a known account', 200],
    ['an unknown one', 401],
  ])('answers 503 with Retry-After to logins of %s that it cannot verify', async (which, verdict) => {
    const { email } = await app.user();
    const answers = await atOnce(15, () => app.login(which === 'a known account' ? email : ABSENT));
    const refused = answers.filter(({ status }) => status !== verdict);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(answers.length);
    for (const answer of refused) expectProblem(answer, BUSY);
    await app.login(email).expect(200);
  });

  it('does not create the user when it answers 503', async () => {
    const bodies = Array.from({ length: 15 }, () => ({ email: `${randomUUID()}@example.org`, password: PASSWORD }));
    const answers = await Promise.all(bodies.map((body) => app.post('/api/v0/auth/register', body)));
    const turnedAway = answers.flatMap((answer, i) => (answer.status === 201 ? [] : [{ answer, ...bodies[i]! }]));
    expect(turnedAway.length).toBeGreaterThan(0);
    for (const { answer, email } of turnedAway) {
      expectProblem(answer, BUSY);
      expect(await app.database.query('SELECT id FROM users WHERE email = $1', [email])).toEqual([]);
    }
  });

  it('does not delay requests that need no password hash', async () => {
    const alice = await app.user();
    const { access_token, refresh_token } = await alice.logsIn();
    const crowd = atOnce(15, () => app.login(alice.email));
    await app.me(access_token).expect(200);
    await app.refresh(refresh_token).expect(200);
    expect((await crowd).map(({ status }) => status)).toContain(BUSY.status);
  });
});

describe('the cost of a stored hash', () => {
  const cheaper = useReplica(app, { variables: { BCRYPT_COST: '4' } });
  const dearer = useReplica(app, { variables: { BCRYPT_COST: '6' } });

  it('stays the same when the configured cost is lower', async () => {
    const alice = await app.user();
    const original = await alice.passwordHash();
    expect(original).toMatch(/^\$2b\$05\$/);
    await alice.logsIn(cheaper);
    expect(await alice.passwordHash()).toBe(original);
  });

  it.each(['an ordinary passphrase', 'x'.repeat(100), 'with a\0 NUL'])(
    'is raised at the next login, and the password %p stays valid',
    async (password) => {
      const alice = await app.user(undefined, password);
      await alice.logsIn(dearer);
      expect(await alice.passwordHash()).toMatch(/^\$2b\$06\$/);
      await app.login(alice.email, password).expect(200);
      expectProblem(await app.login(alice.email, `${password}!`), problems.invalidCredentials);
    },
  );

  it('is not raised by a refused login', async () => {
    const [alice, disabled] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    const hashes = () => Promise.all([alice.passwordHash(), disabled.passwordHash()]);
    const originals = await hashes();
    expectProblem(await dearer.login(alice.email, 'not her passphrase'), problems.invalidCredentials);
    expectProblem(await dearer.login(disabled.email), problems.invalidCredentials);
    expect(await hashes()).toEqual(originals);
  });

  it('is raised by concurrent logins too, which are all accepted', async () => {
    const alice = await app.user();
    await atOnce(20, () => dearer.login(alice.email).expect(200));
    expect(await alice.passwordHash()).toMatch(/^\$2b\$06\$/);
    await app.login(alice.email).expect(200);
  });
});
