import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import type { Response } from 'supertest';

const ROUNDS = 25;

describe('the end of a session that races with its use on another replica', () => {
  const app = useApp();
  const other = useReplica(app);

  /** Expects that every issued token is refused, including the tokens of the racing responses. */
  const expectDead = async (tokens: Tokens, ...answers: Response[]): Promise<void> => {
    const raced = answers.filter(({ status }) => status === 200).map(({ body }) => body as Tokens);
    for (const { access_token, refresh_token } of [tokens, ...raced]) {
      expectProblem(await other.refresh(refresh_token), problems.invalidRefreshToken);
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
    for (let round = 0; round < ROUNDS; round++) {
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        other.refresh(tokens.refresh_token),
        app.logout(tokens.refresh_token).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    }
    expect(await liveSessionsOf(alice.id)).toEqual([]);
  });

  it('revokes every token before a logout with the bearer token answers', async () => {
    const alice = await app.user();
    for (let round = 0; round < ROUNDS; round++) {
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        other.refresh(tokens.refresh_token),
        app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${tokens.access_token}`).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    }
    expect(await liveSessionsOf(alice.id)).toEqual([]);
  });

  it('revokes every token before the response to an operator who ends all sessions', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed] = await Promise.all([
        other.refresh(tokens.refresh_token),
        app.admin.delete(`/users/${alice.id}/sessions`).expect(204),
      ]);
      expectVerdict(refreshed);
      await expectDead(tokens, refreshed);
    }
  });

  it('revokes every token before the response to an operator who disables the user', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed, loggedIn] = await Promise.all([
        other.refresh(tokens.refresh_token),
        other.login(alice.email),
        app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200),
      ]);
      expectVerdict(refreshed, loggedIn);
      await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
      await expectDead(tokens, refreshed, loggedIn);
      expect(await liveSessionsOf(alice.id)).toEqual([]);
    }
  });

  it('revokes every token before the response to an operator who deletes the user', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const alice = await app.user();
      const tokens = await alice.logsIn();
      const [refreshed, loggedIn] = await Promise.all([
        other.refresh(tokens.refresh_token),
        other.login(alice.email),
        app.admin.delete(`/users/${alice.id}`).expect(204),
      ]);
      expectVerdict(refreshed, loggedIn);
      await expectDead(tokens, refreshed, loggedIn);
      expect(await app.database.query('SELECT id FROM sessions WHERE user_id = $1', [alice.id])).toEqual([]);
    }
  });

  it('is recorded once for concurrent logouts', async () => {
    const alice = await app.user();
    const endings = () => [app, other].flatMap(({ log }) => log.events('session.ended'));
    const before = endings().length;
    for (let round = 0; round < ROUNDS; round++) {
      const { refresh_token } = await alice.logsIn();
      await Promise.all(Array.from({ length: 6 }, (_, i) => (i % 2 ? app : other).logout(refresh_token).expect(204)));
    }
    expect(endings().length - before).toBe(ROUNDS);
  });
});
