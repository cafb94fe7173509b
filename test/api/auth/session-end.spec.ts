import { Client } from 'pg';
import type { Test as SupertestRequest } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { recorded } from '../../domain/audit/record.js';
import { atOnce, ROUNDS, repeatRace } from '../../support/at-once.js';
import { expectEnded, expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import type { Tokens, User } from '../../support/test-app.js';
import { useApp, useReplica } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

const withBearer = (accessToken: string, body?: object): SupertestRequest =>
  app.post('/api/v0/auth/logout', body).set('Authorization', `Bearer ${accessToken}`);

describe('POST /api/v0/auth/logout', () => {
  const { clock } = app;
  let alice: User;

  beforeAll(async () => {
    alice = await app.user();
  });

  it('ends the session of a refresh token, idempotently', async () => {
    const tokens = await alice.logsIn();
    const answer = await app.logout(tokens.refresh_token).expect(204);
    expect(answer.text).toBe('');
    await expectEnded(tokens, app);
    await app.logout(tokens.refresh_token).expect(204);
  });

  it('ends the session of a bearer token, idempotently, and no other session', async () => {
    const [mine, other] = [await alice.logsIn(), await alice.logsIn()];
    await withBearer(mine.access_token).expect(204);
    await expectEnded(mine, app);
    await app.me(other.access_token).expect(200);
    await withBearer(mine.access_token).expect(204);
  });

  it('ends both sessions when both credentials are sent', async () => {
    const [one, two] = [await alice.logsIn(), await alice.logsIn()];
    await withBearer(one.access_token, { refresh_token: two.refresh_token }).expect(204);
    for (const each of [one, two]) await expectEnded(each, app);
  });

  it('ends the session by an older refresh token too, because a refresh may have just replaced it', async () => {
    const old = await alice.logsIn();
    const fresh = await app.rotate(old.refresh_token);
    await app.logout(old.refresh_token).expect(204);
    await expectEnded(fresh, app);
  });

  it('accepts an access token that has expired', async () => {
    const tokens = await alice.logsIn();
    clock.advance({ minutes: 20 });
    await withBearer(tokens.access_token).expect(204);
    expectProblem(await app.refresh(tokens.refresh_token), problems.invalidRefreshToken);
  });

  it('answers 401 to a forged bearer token without a refresh token', async () => {
    expectProblem(await withBearer('abc'), problems.invalidAccessToken);
  });

  it.each(['Bearer undefined', 'Basic YTpi', 'abc'])(
    'ignores "Authorization: %s" beside a refresh token',
    async (authorization) => {
      const { refresh_token } = await alice.logsIn();
      const logout = app.post('/api/v0/auth/logout', { refresh_token }).set('Authorization', authorization);
      await logout.expect(204);
      expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    },
  );

  it('answers 400 when neither a refresh token nor a bearer was sent', async () => {
    expectProblem(await app.post('/api/v0/auth/logout'), problems.nothingToLogOut);
    expectProblem(await app.post('/api/v0/auth/logout', {}), problems.nothingToLogOut);
    const basic = { Authorization: 'Basic YTpi' };
    expectProblem(await app.post('/api/v0/auth/logout').set(basic), problems.nothingToLogOut);
    expectInvalid(await app.post('/api/v0/auth/logout', { refresh_token: 7 }), '/refresh_token');
  });
});

describe('the end of a session that races with its use on another replica', () => {
  const setActive = ({ id }: User, is_active: boolean) => app.admin.patch(`/users/${id}`, { is_active }).expect(200);

  it.each<[string, (user: User, tokens: Tokens) => SupertestRequest, string[]]>([
    ['logout', (_user, tokens) => app.logout(tokens.refresh_token).expect(204), ['refresh']],
    ['logout with the bearer token', (_user, tokens) => withBearer(tokens.access_token).expect(204), ['refresh']],
    ['an operator ends all sessions', ({ id }) => app.admin.delete(`/users/${id}/sessions`).expect(204), ['refresh']],
    ['an operator disables the user', (user) => setActive(user, false), ['refresh', 'login']],
    ['an operator deletes the user', ({ id }) => app.admin.delete(`/users/${id}`).expect(204), ['refresh', 'login']],
  ])('revokes every token, those of the racing responses too, before the response: %s', async (name, end, racing) => {
    await repeatRace(async () => {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [answers] = await Promise.all([
        Promise.all(
          racing.map((call) => (call === 'login' ? replica.login(alice.email) : replica.refresh(tokens.refresh_token))),
        ),
        end(alice, tokens),
      ]);
      for (const { status } of answers) expect([200, 401]).toContain(status);
      if (name === 'an operator disables the user') await setActive(alice, true);
      const raced = answers.filter(({ status }) => status === 200).map(({ body }) => body as Tokens);
      for (const each of [tokens, ...raced]) await expectEnded(each, app, replica);
      const live = 'SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL';
      expect(await app.database.query(live, [alice.id])).toEqual([]);
    });
  });

  it('is recorded once for concurrent logouts', async () => {
    const alice = await app.user();
    const endings = () => [app, replica].flatMap(({ log }) => log.events('session.ended'));
    const before = endings().length;
    await repeatRace(async () => {
      const { refresh_token } = await alice.logsIn();
      await atOnce(6, (i) => (i % 2 ? app : replica).logout(refresh_token).expect(204));
    });
    expect(endings().length - before).toBe(ROUNDS);
  });
});

describe('the limit of sessions of one user', () => {
  const app = useApp({ variables: UNLEASED, settings: { sessionLimitPerUser: 5 } });
  const replica = useReplica(app);

  const liveSessionsOf = ({ id }: User) =>
    app.database.query<{ id: string }>('SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL ORDER BY id', [
      id,
    ]);

  const logInTimes = async (user: User, times: number): Promise<Tokens[]> => {
    const tokens: Tokens[] = [];
    for (let i = 0; i < times; i++) tokens.push(await user.logsIn());
    return tokens;
  };

  it('evicts only the oldest session at a login beyond the limit', async () => {
    const alice = await app.user();
    const [oldest, ...others] = await logInTimes(alice, 5);
    await app.me(oldest!.access_token).expect(200);
    const newest = await alice.logsIn(replica);
    await expectEnded(oldest!, app);
    for (const { access_token } of [...others, newest]) await app.me(access_token).expect(200);
    const { body } = await app.admin.get(`/users/${alice.id}/sessions`).expect(200);
    const reasons = (body as { items: { end_reason: string | null }[] }).items.map(({ end_reason }) => end_reason);
    expect(reasons).toEqual(['session_limit', null, null, null, null, null]);
  });

  it('keeps the session that just started on a replica whose clock is behind', async () => {
    const alice = await app.user();
    await logInTimes(alice, 5);
    // Ids are in the order of time: these come from replicas whose clocks are ahead.
    await app.database.query(`UPDATE sessions SET id = overlay(id::text placing 'f' from 1)::uuid WHERE user_id = $1`, [
      alice.id,
    ]);
    const { access_token, refresh_token } = await alice.logsIn();
    await app.me(access_token).expect(200);
    await app.refresh(refresh_token).expect(200);
    expect(await liveSessionsOf(alice)).toHaveLength(5);
  });

  it('holds for 50 concurrent logins over two replicas', async () => {
    const alice = await app.user();
    const answers = await atOnce(50, (i) => (i % 2 ? app : replica).login(alice.email, alice.password));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const { length: live } = await liveSessionsOf(alice);
    expect(live).toBeGreaterThan(0);
    expect(live).toBeLessThanOrEqual(5);
    const usable = await Promise.all(
      answers.map(async ({ body }) => (await app.refresh((body as Tokens).refresh_token)).status),
    );
    expect(usable.filter((status) => status === 200)).toHaveLength(live);
  });

  it('does not deadlock with refreshes or with an operator who ends all sessions', async () => {
    const alice = await app.user();
    for (let round = 0; round < 4; round++) {
      const tokens = await logInTimes(alice, 5);
      const answers = await Promise.all([
        ...Array.from({ length: 6 }, (_, i) => (i % 2 ? app : replica).login(alice.email, alice.password)),
        app.admin.delete(`/users/${alice.id}/sessions`),
        ...tokens.map(({ refresh_token }) => replica.refresh(refresh_token)),
      ]);
      for (const { status } of answers) expect([200, 204, 401]).toContain(status);
    }
  });

  it('does not count ended or expired sessions', async () => {
    const alice = await app.user();
    const kept = await alice.logsIn();
    for (const { refresh_token } of await logInTimes(alice, 3)) await app.logout(refresh_token).expect(204);
    await logInTimes(alice, 3);
    await app.database.query(
      `UPDATE sessions SET expires_at = now() - interval '1 hour' WHERE user_id = $1 AND id <> (
         SELECT min(id::text)::uuid FROM sessions WHERE user_id = $1)`,
      [alice.id],
    );
    await logInTimes(alice, 4);
    await app.me(kept.access_token).expect(200);
  });

  it('does not undo a login when the surplus cannot be ended; the next login ends it', async () => {
    const hasty = await app.startReplica({ settings: { databaseStatementTimeoutMs: 5_000 } });
    const alice = await app.user();
    await logInTimes(alice, 5);
    const holder = new Client({ connectionString: app.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM sessions WHERE user_id = $1 FOR UPDATE', [alice.id]);
    const { access_token } = await alice.logsIn(hasty);
    await holder.end();
    await app.me(access_token).expect(200);
    expect(await liveSessionsOf(alice)).toHaveLength(6);
    await alice.logsIn(hasty);
    expect(await liveSessionsOf(alice)).toHaveLength(5);
    await hasty.stop();
  });

  it('writes one audit row and one security event with the number of sessions that a login evicted', async () => {
    const alice = await app.user();
    await logInTimes(alice, 6);
    const ended = { event: 'session.ended', count: 1, details: { reason: 'session_limit' } };
    const rows = await recorded(app, { subject: alice.id, event: 'session.ended' });
    expect(rows).toMatchObject([{ ...ended, actor: { door: 'user', id: alice.id } }]);
    await eventually('it is logged', () => app.log.events('session.ended').some(({ user_id }) => user_id === alice.id));
    expect(app.log.events('session.ended').filter(({ user_id }) => user_id === alice.id)).toMatchObject([
      { reason: 'session_limit', count: 1 },
    ]);
  });

  it('reads only sessions that have not ended, by an index', async () => {
    const alice = await app.user();
    await app.database.query(
      `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, created_at, expires_at, absolute_expires_at, ended_at)
       SELECT gen_random_uuid(), $1, '\\x00', 0, now(), now(), now(), now(), now() FROM generate_series(1, 20000)`,
      [alice.id],
    );
    await app.database.query('ANALYZE sessions');
    const plan = await app.database.query(
      `EXPLAIN SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL
       ORDER BY (expires_at > now()) DESC, id DESC OFFSET 100`,
      [alice.id],
    );
    expect(JSON.stringify(plan)).toContain('sessions_not_ended_idx');
  });
});
