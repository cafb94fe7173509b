import type { Response } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { Database } from '../../../src/foundation/database/database.js';
import { expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { TestApp, type User } from '../../support/test-app.js';
import { useAppPerTest } from '../../support/use-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { LoginThrottle } from '../../../src/foundation/throttling/guess-throttles.js';
import { TestClock } from '../../support/test-clock.js';

const BUSY_LIMIT = 20;

// bcrypt is slower than the requests arrive, also where the queue and the hashing share a busy processor.
const VARIABLES = { ...UNLEASED, TRUST_PROXY: '1', BCRYPT_COST: '8' };

const SETTINGS = {
  databaseConnectTimeoutMs: 30_000,
  hashThreads: 1,
  hashQueueLimit: 16,
  hashingBusyLimitPerAddress: { points: BUSY_LIMIT, seconds: 60 },
};

const FLOODER = '198.51.100.66';

const FLOOD = 154;

describe('a flood of logins from one address', () => {
  const app = useAppPerTest({ variables: VARIABLES, settings: SETTINGS });
  let mallory: User;
  let users: User[];

  beforeEach(async () => {
    mallory = await app.user();
    users = [];
    for (let made = 0; made < 4; made += 1) users.push(await app.user());
  });

  const login = (address: string, email: string, password = PASSWORD) =>
    app.login(email, password).set('X-Forwarded-For', address);
  const flood = (times: number, password = PASSWORD): Promise<Response>[] =>
    Array.from({ length: times }, () => login(FLOODER, mallory.email, password).then((answer) => answer));

  const register = (address: string, email: string) =>
    app.post('/api/v0/auth/register', { email, password: PASSWORD }).set('X-Forwarded-For', address);

  it.each([
    ['right', PASSWORD],
    ['wrong', 'not the passphrase'],
  ])('with %s passwords starves neither logins nor registrations from other addresses', async (_name, password) => {
    const flooding = flood(FLOOD, password);
    // As soon as the first one is refused, the queue is full.
    const first = await Promise.race(flooding.map(async (answer) => ((await answer).status === 503 ? true : never())));
    expect(first).toBe(true);
    const logins = users.map(({ email }, index) => login(`203.0.113.${index}`, email));
    const registrations = [1, 2, 3, 4].map((index) => register(`192.0.2.${index}`, `new-${index}@example.org`));
    expect(countByStatus(await Promise.all([...logins, ...registrations]))).toEqual({ 200: users.length, 201: 4 });
    const refused = (await Promise.all(flooding)).filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectProblem(answer, problems.hashingBusy);
  });

  it('is 429 after too many 503, without a statement, while other addresses log in', async () => {
    await Promise.all(flood(FLOOD));
    const run = jest.spyOn(Database.prototype, 'rows');
    try {
      for (const answer of await Promise.all(flood(300)))
        expect(expectThrottled(answer)).toMatchObject({
          policy: 'hashing-busy',
          points: BUSY_LIMIT,
          windowSeconds: 60,
        });
      expect(run.mock.calls.filter(([{ name }]) => name.startsWith('throttle'))).toEqual([]);
    } finally {
      run.mockRestore();
    }
    await login('203.0.113.1', users[0]!.email).expect(200);
    const refused = expectThrottled(await register(FLOODER, 'new@example.org'));
    expect(refused).toMatchObject({ policy: 'hashing-busy' });
    const lines = app.log.lines.filter(({ event, status }) => event === 'user.login.throttled' || status === 429);
    expect(lines.length).toBeLessThan(2 * 120);
  });
});

function never(): Promise<never> {
  return new Promise(() => undefined);
}

describe('credential stuffing from one address', () => {
  it('writes no row after the address has used up its budget', async () => {
    const app = await TestApp.start({ variables: { ...UNLEASED, LOGIN_LIMIT_PER_ADDRESS: '10/900' } });
    const guess = (times: number, name: string) =>
      Promise.all(Array.from({ length: times }, (_, index) => app.login(`${name}-${index}@example.org`)));
    expect(countByStatus(await guess(30, 'first'))).toEqual({ 401: 10, 429: 20 });
    const rows = () => app.database.query('SELECT key, consumed, reserved FROM throttle_windows ORDER BY key');
    const before = await rows();
    expect(countByStatus(await guess(300, 'second'))).toEqual({ 429: 300 });
    expect(await rows()).toEqual(before);
    await app.stop();
  });
});

const LIMIT = 4;

const OPTIONS = {
  variables: { ...UNLEASED, LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900` },
  settings: { databaseConnectTimeoutMs: 30_000 },
};

const EMAIL = 'alice@example.org';

describe('a reserved guess', () => {
  const app = useAppPerTest(OPTIONS);

  const begin = (times: number) =>
    Promise.all(Array.from({ length: times }, () => app.nest.get(LoginThrottle).reserveGuess(EMAIL, '127.0.0.1')));
  const guess = (times: number, by = app) =>
    Promise.all(Array.from({ length: times }, () => by.login(EMAIL, 'not her passphrase')));
  const pair = async () => {
    const rows = await app.database.query<{ consumed: number; reserved: number; expires_in: number }>(
      `SELECT consumed, reserved, extract(epoch FROM reserved_until - now())::float8 AS expires_in
       FROM throttle_windows WHERE key LIKE 'login-account-address:%'`,
    );
    return rows[0]!;
  };

  it('of a killed replica is released within a minute, before its window ends', async () => {
    const killed = await app.startReplica();
    const throttle = killed.nest.get(LoginThrottle);
    for (let count = 0; count < LIMIT; count += 1) await throttle.reserveGuess(EMAIL, '127.0.0.1');
    await killed.stop();
    const { reserved, expires_in } = await pair();
    expect(reserved).toBe(LIMIT);
    expect(expires_in).toBeLessThanOrEqual(60);
    const waiting = guess(10);
    await app.database.query('UPDATE throttle_windows SET reserved_until = now()');
    expect(countByStatus(await waiting)).toEqual({ 401: LIMIT, 429: 10 - LIMIT });
    expect(await pair()).toMatchObject({ consumed: LIMIT, reserved: 0 });
  });

  it('blocks a login at the limit until it is refunded', async () => {
    const attempts = await begin(LIMIT);
    const waiting = guess(1);
    await attempts[0]!.refund();
    expect(countByStatus(await waiting)).toEqual({ 401: 1 });
    await Promise.all(attempts.slice(1).map((attempt) => attempt.settle(true)));
    expect(await pair()).toMatchObject({ consumed: 1, reserved: 0 });
  });

  it('that is settled after its window does not count in the next one', async () => {
    const [late] = await begin(1);
    await app.database.query(
      "UPDATE throttle_windows SET window_start = window_start - interval '901 s', window_end = window_end - interval '901 s'",
    );
    expect(countByStatus(await guess(1))).toEqual({ 401: 1 });
    await late!.settle(false);
    expect(await pair()).toMatchObject({ consumed: 1, reserved: 0 });
    expect(countByStatus(await guess(10))).toEqual({ 401: LIMIT - 1, 429: 10 - LIMIT + 1 });
  });

  it('is counted by the clock of PostgreSQL, not of a replica', async () => {
    const clock = new TestClock();
    clock.advance({ days: 500 });
    const ahead = await app.startReplica({ clock });
    const answers = await Promise.all([guess(20), guess(20, ahead)]);
    expect(countByStatus(answers.flat())).toEqual({ 401: LIMIT, 429: 40 - LIMIT });
    await ahead.stop();
  });
});
