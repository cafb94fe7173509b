import { Client } from 'pg';
import { problems } from '../../src/problems/problems.js';
import { eventually } from '../../tools/eventually.js';
import { expectProblem } from '../support/expect-problem.js';
import { Callers, SHORT_WAITS } from '../support/outage.js';
import { TestApp, type Tokens } from '../support/test-app.js';

describe('an overloaded database', () => {
  let holder: Client;
  let callers: Callers;

  const start = async (databaseStatementTimeoutMs: number): Promise<void> => {
    const variables = { ...SHORT_WAITS.variables, DATABASE_POOL_SIZE: '1' };
    const settings = { ...SHORT_WAITS.settings, databaseStatementTimeoutMs };
    callers = await Callers.of(await TestApp.start({ variables, settings }));
    holder = new Client({ connectionString: callers.app.database.url });
    holder.on('error', () => undefined);
    await holder.connect();
  };

  afterEach(async () => {
    await holder.end();
    await callers.app.stop();
  });

  const someoneWaits = () =>
    eventually('a statement waits for the lock', async () => {
      const sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
      return (await callers.app.database.query(sql)).length > 0;
    });

  it('answers 503 while the pool is exhausted, and again with verdicts once it is not', async () => {
    await start(20_000);
    const { app, tokens } = callers;
    await holder.query('BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE');
    const slow = app.refresh(tokens.refresh_token).then((answer) => answer);
    await someoneWaits();
    await callers.expectAllUnavailable();
    // The check has a connection of its own: the database itself is usable.
    await eventually('it is ready', async () => (await app.get('/health')).status === 200);
    await app.get('/health/live').expect(200);
    await holder.query('ROLLBACK');
    const refreshed = await slow;
    expect(refreshed.status).toBe(200);
    callers.tokens = refreshed.body as Tokens;
    await callers.expectRecovered();
  });

  it('causes 503 for a refresh that waits too long for a lock, and the token stays valid', async () => {
    await start(1_000);
    const { app, tokens, alice } = callers;
    await holder.query('BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE');
    const attempts = Array.from({ length: 10 }, () => app.refresh(tokens.refresh_token));
    for (const answer of await Promise.all(attempts)) expectProblem(answer, problems.unavailable);
    expectProblem(await app.login(alice.email), problems.unavailable);
    expectProblem(await app.me(tokens.access_token), problems.unavailable);
    await app.get('/health/live').expect(200);
    await holder.query('ROLLBACK');
    await callers.expectRecovered();
  });
});
