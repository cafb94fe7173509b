import { LoginThrottle } from '../../src/throttling/guess-throttles.js';
import { TestClock } from '../support/test-clock.js';
import { useAppPerTest } from '../support/use-app.js';
import { countByStatus } from '../support/throttled.js';

const LIMIT = 4;
const OPTIONS = {
  variables: { LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900` },
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
    const rows = await app.database.query<{ lost: number; in_flight: number; expires_in: number }>(
      `SELECT lost, in_flight, extract(epoch FROM in_flight_until - now())::float8 AS expires_in
       FROM throttle_windows WHERE key LIKE 'login-account-address:%'`,
    );
    return rows[0]!;
  };

  it('of a killed replica is released within a minute, before its window ends', async () => {
    const killed = await app.startReplica();
    const throttle = killed.nest.get(LoginThrottle);
    for (let count = 0; count < LIMIT; count += 1) await throttle.reserveGuess(EMAIL, '127.0.0.1');
    await killed.stop();
    const { in_flight, expires_in } = await pair();
    expect(in_flight).toBe(LIMIT);
    expect(expires_in).toBeLessThanOrEqual(60);
    const waiting = guess(10);
    await app.database.query('UPDATE throttle_windows SET in_flight_until = now()');
    expect(countByStatus(await waiting)).toEqual({ 401: LIMIT, 429: 10 - LIMIT });
    expect(await pair()).toMatchObject({ lost: LIMIT, in_flight: 0 });
  });

  it('blocks a login at the limit until it is refunded', async () => {
    const attempts = await begin(LIMIT);
    const waiting = guess(1);
    await attempts[0]!.refund(new Error('not verified'));
    expect(countByStatus(await waiting)).toEqual({ 401: 1 });
    await Promise.all(attempts.slice(1).map((attempt) => attempt.settle(true)));
    expect(await pair()).toMatchObject({ lost: 1, in_flight: 0 });
  });

  it('that is settled after its window does not count in the next one', async () => {
    const [late] = await begin(1);
    await app.database.query(
      "UPDATE throttle_windows SET window_start = window_start - interval '901 s', window_end = window_end - interval '901 s'",
    );
    expect(countByStatus(await guess(1))).toEqual({ 401: 1 });
    await late!.settle(false);
    expect(await pair()).toMatchObject({ lost: 1, in_flight: 0 });
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
