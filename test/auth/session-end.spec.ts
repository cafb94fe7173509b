import type { Response } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Tokens, User } from '../support/test-app.js';
import { repeatRace, ROUNDS } from '../support/repeat-race.js';
import { useApp, useReplica } from '../support/use-app.js';

const app = useApp();
const replica = useReplica(app);

describe('POST /api/v0/auth/logout', () => {
  const { clock } = app;
  let alice: User;

  beforeAll(async () => {
    alice = await app.user();
  });

  const withBearer = (accessToken: string, body?: object) =>
    app.post('/api/v0/auth/logout', body).set('Authorization', `Bearer ${accessToken}`);

  const expectEnded = async ({ access_token, refresh_token }: Tokens): Promise<void> => {
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  };

  it('ends the session of a refresh token, idempotently', async () => {
    const tokens = await alice.logsIn();
    const answer = await app.logout(tokens.refresh_token).expect(204);
    expect(answer.text).toBe('');
    await expectEnded(tokens);
    await app.logout(tokens.refresh_token).expect(204);
  });

  it('ends the session of a bearer token, idempotently, and no other session', async () => {
    const [mine, other] = [await alice.logsIn(), await alice.logsIn()];
    await withBearer(mine.access_token).expect(204);
    await expectEnded(mine);
    await app.me(other.access_token).expect(200);
    await withBearer(mine.access_token).expect(204);
  });

  it('ends both sessions when both credentials are sent', async () => {
    const [one, two] = [await alice.logsIn(), await alice.logsIn()];
    await withBearer(one.access_token, { refresh_token: two.refresh_token }).expect(204);
    await expectEnded(one);
    await expectEnded(two);
  });

  it('ends the session by an older refresh token too, because a refresh may have just replaced it', async () => {
    const old = await alice.logsIn();
    const fresh = (await app.refresh(old.refresh_token).expect(200)).body as Tokens;
    await app.logout(old.refresh_token).expect(204);
    await expectEnded(fresh);
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
  /** Expects that every issued token is refused, including the tokens of the racing responses. */
  const expectDead = async (tokens: Tokens, ...answers: Response[]): Promise<void> => {
    const raced = answers.filter(({ status }) => status === 200).map(({ body }) => body as Tokens);
    for (const { access_token, refresh_token } of [tokens, ...raced]) {
      expectProblem(await replica.refresh(refresh_token), problems.invalidRefreshToken);
      expectProblem(await app.me(access_token), problems.invalidAccessToken);
    }
  };
  const expectVerdict = (...answers: Response[]): void => {
    for (const { status } of answers) expect([200, 401]).toContain(status);
  };
  const liveSessionsOf = (userId: string) =>
    app.database.query('SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL', [userId]);

  it('revokes every token before logout answers', async () => {
    const alice = await app.user();
    await repeatRace(async () => {
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        replica.refresh(tokens.refresh_token),
        app.logout(tokens.refresh_token).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    });
    expect(await liveSessionsOf(alice.id)).toEqual([]);
  });

  it('revokes every token before a logout with the bearer token answers', async () => {
    const alice = await app.user();
    await repeatRace(async () => {
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        replica.refresh(tokens.refresh_token),
        app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${tokens.access_token}`).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    });
    expect(await liveSessionsOf(alice.id)).toEqual([]);
  });

  it('revokes every token before the response to an operator who ends all sessions', async () => {
    await repeatRace(async () => {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        replica.refresh(tokens.refresh_token),
        app.admin.delete(`/users/${alice.id}/sessions`).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    });
  });

  it('revokes every token before the response to an operator who disables the user', async () => {
    await repeatRace(async () => {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed, loggedIn] = await Promise.all([
        replica.refresh(tokens.refresh_token),
        replica.login(alice.email),
        app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200),
      ]);
      expectVerdict(refreshed, loggedIn);
      await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
      await expectDead(tokens, refreshed, loggedIn);
      expect(await liveSessionsOf(alice.id)).toEqual([]);
    });
  });

  it('revokes every token before the response to an operator who deletes the user', async () => {
    await repeatRace(async () => {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed, loggedIn] = await Promise.all([
        replica.refresh(tokens.refresh_token),
        replica.login(alice.email),
        app.admin.delete(`/users/${alice.id}`).expect(204),
      ]);
      expectVerdict(refreshed, loggedIn);
      await expectDead(tokens, refreshed, loggedIn);
      expect(await app.database.query('SELECT id FROM sessions WHERE user_id = $1', [alice.id])).toEqual([]);
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
