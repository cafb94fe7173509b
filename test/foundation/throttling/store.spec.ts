import { problems } from '../../../src/foundation/problems/problems.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { lockTables, openTransaction } from '../../support/row-lock.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { TestApp, type TestAppOptions } from '../../support/test-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { untilVerdict } from '../../support/until-verdict.js';

const LIMIT = 3;
const WRONG = 'not her passphrase';
const LIMITS = { LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900` };

describe('the throttle counters', () => {
  let app: TestApp;

  const start = async (options: TestAppOptions = {}): Promise<void> => {
    app = await TestApp.start({ ...options, variables: { ...UNLEASED, ...LIMITS, ...options.variables } });
  };
  const guess = (times: number, email: string, by = app) =>
    Promise.all(Array.from({ length: times }, () => by.login(email, WRONG)));
  /** A replica with short timeouts answers 503 while the machine stalls, and does not count that login as a guess. */
  const guessUntilVerdict = (times: number, email: string) =>
    Promise.all(Array.from({ length: times }, () => untilVerdict(() => app.login(email, WRONG))));

  /** Moves the windows, because they follow the clock of PostgreSQL. */
  const passes = (interval: string) =>
    app.database.query(
      'UPDATE throttle_windows SET window_start = window_start - $1::interval, window_end = window_end - $1::interval',
      [interval],
    );

  afterEach(async () => {
    await app.stop();
  });

  it('fail closed with 503 when they are unavailable', async () => {
    await start();
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const sessions = () => app.database.query('SELECT id FROM sessions');
    const before = await sessions();
    await app.database.query('ALTER TABLE throttle_windows RENAME TO lost');
    for (const password of [PASSWORD, WRONG])
      expectProblem(await app.login(alice.email, password), problems.unavailable);
    expectProblem(await app.login('unknown@example.org'), problems.unavailable);
    expectProblem(await app.refresh(refresh_token), problems.unavailable);
    const registration = { email: 'new@example.org', password: PASSWORD };
    expectProblem(await app.post('/api/v0/auth/register', registration), problems.unavailable);
    expect(await sessions()).toEqual(before);
    expect(app.log.lines.filter(({ error }) => error?.code === '42P01')).toHaveLength(5);
    await app.database.query('ALTER TABLE lost RENAME TO throttle_windows');
    await app.refresh(refresh_token).expect(200);
    await app.login(alice.email).expect(200);
  });

  it('fail all waiting logins at once, not one after the other', async () => {
    await start(SHORT_WAITS);
    const holder = await lockTables(app.database, 'throttle_windows');
    // 200 sequential waits of a second would exceed the test timeout.
    for (const answer of await guess(200, 'unknown@example.org')) expectProblem(answer, problems.unavailable);
    await holder.end();
    const verdicts = await guessUntilVerdict(10, 'unknown@example.org');
    expect(countByStatus(verdicts)).toEqual({ 401: LIMIT, 429: 10 - LIMIT });
  });

  it('do not count a login that could not be verified', async () => {
    await start(SHORT_WAITS);
    const { email } = await withPatientReplica(app, (patient) => patient.user());
    const holder = await lockTables(app.database, 'users');
    for (const answer of await guess(10, email)) expectProblem(answer, problems.unavailable);
    await holder.end();
    expect(countByStatus(await guessUntilVerdict(10, email))).toEqual({ 401: LIMIT, 429: 10 - LIMIT });
  });

  it('restart with the next window', async () => {
    await start({ variables: { LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '2/3' } });
    const email = 'unknown@example.org';
    const refused = expectThrottled((await guess(50, email)).find(({ status }) => status === 429)!);
    expect(refused).toMatchObject({ policy: 'login-account-address', points: 2, windowSeconds: 3 });
    expect(refused.retryAfterSeconds).toBeLessThanOrEqual(3);
    await eventually('the window is over', async () => (await app.login(email, WRONG)).status === 401);
  });

  it('recover when the clock of the database was far ahead', async () => {
    await start();
    const other = await app.startReplica();
    const email = 'unknown@example.org';
    await guess(2 * LIMIT, email);
    expectThrottled(await other.login(email, WRONG));
    await app.database.query("UPDATE throttle_windows SET window_end = window_end + interval '2 days'");
    await other.stop();
    const third = await app.startReplica();
    const answers = await guess(10, email, third);
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 10 - LIMIT });
    expect(expectThrottled(await third.login(email)).retryAfterSeconds).toBeLessThanOrEqual(900);
    await third.stop();
  });

  it('contain no account and no address in plain text', async () => {
    await start();
    const alice = await app.user();
    await alice.logsIn();
    await guess(5, alice.email);
    const rows = await app.database.query<{ key: string }>('SELECT * FROM throttle_windows');
    expect(rows.map(({ key }) => key.split(':')[0]).sort()).toEqual([
      'known-address',
      'login-account',
      'login-account-address',
      'login-address',
      'registration',
    ]);
    for (const { key } of rows) expect(key).toMatch(/^[a-z.-]+:[\w-]{43}$/);
    expect(JSON.stringify(rows)).not.toMatch(/127\.0\.0\.1|example/);
  });

  it('are purged after their window, and known addresses after their retention', async () => {
    await start();
    const alice = await app.user();
    await alice.logsIn();
    await guess(1, 'unknown@example.org');
    const names = async () => {
      const rows = await app.database.query<{ name: string }>(
        "SELECT DISTINCT split_part(key, ':', 1) AS name FROM throttle_windows ORDER BY 1",
      );
      return rows.map(({ name }) => name);
    };
    const job = app.nest.get(PurgeJob);
    await job.purgeExpired();
    expect(await names()).toContain('login-account-address');
    await passes('61 minutes');
    await job.purgeExpired();
    expect(await names()).toEqual(['known-address']);
    await passes('31 days');
    await job.purgeExpired();
    expect(await names()).toEqual([]);
  });

  it('are purged without waiting for a locked row', async () => {
    await start();
    await guess(1, 'unknown@example.org');
    await passes('1 day');
    const held = "SELECT key FROM throttle_windows WHERE key LIKE 'login-account:%'";
    const holder = await openTransaction(app.database, `${held} FOR UPDATE`);
    await app.nest.get(PurgeJob).purgeExpired();
    await holder.end();
    expect(await app.database.query('SELECT key FROM throttle_windows')).toEqual(await app.database.query(held));
    expect(app.log.lines.map(({ message }) => message)).not.toContain('purge_failed');
  });
});
