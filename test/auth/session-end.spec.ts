import type { Test as SupertestRequest } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { expectEnded, expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Tokens, User } from '../support/test-app.js';
import { repeatRace, ROUNDS } from '../support/repeat-race.js';
import { useApp, useReplica } from '../support/use-app.js';

const app = useApp();
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

  it('answers 204 to an unknown refresh token', async () => {
    await app.logout('unknown').expect(204);
    await app.logout(`pa_rt_${'A'.repeat(112)}`).expect(204);
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

  it('answers 400 to another authorization scheme', async () => {
    const logout = app.post('/api/v0/auth/logout').set('Authorization', 'Basic YTpi');
    expectProblem(await logout, problems.nothingToLogOut);
  });

  it('answers 400 when neither a refresh token nor a bearer was sent', async () => {
    expectProblem(await app.post('/api/v0/auth/logout'), problems.nothingToLogOut);
    expectProblem(await app.post('/api/v0/auth/logout', {}), problems.nothingToLogOut);
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
      await Promise.all(Array.from({ length: 6 }, (_, i) => (i % 2 ? app : replica).logout(refresh_token).expect(204)));
    });
    expect(endings().length - before).toBe(ROUNDS);
  });
});
