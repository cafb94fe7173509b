import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import type { Response } from 'supertest';

const ROUNDS = 25;

describe('the end of a session, racing with its use on another replica', () => {
  const app = useApp();
  const other = useReplica(app);

  /** Expects that whatever was handed out is worth nothing, also what the racing answer brought. */
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

  it('leaves nothing alive once a logout has answered', async () => {
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

  it('leaves nothing alive once a logout with the bearer alone has answered', async () => {
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

  it('leaves nothing alive once an operator has ended all sessions', async () => {
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

  it('leaves nothing alive once an operator has disabled the user', async () => {
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

  it('leaves nothing alive once an operator has deleted the user', async () => {
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

  it('happens once, however many log out at the same time', async () => {
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
