import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('POST /api/v0/auth/refresh', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const rotated = async (token: string): Promise<Tokens> => (await app.refresh(token).expect(200)).body as Tokens;

  it('exchanges the token for a new pair that works', async () => {
    const old = await tokensOf();
    const pair = await rotated(old.refresh_token);
    expect(pair).toEqual({
      access_token: expect.any(String),
      refresh_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 900,
    });
    expect(pair.refresh_token).not.toBe(old.refresh_token);
    await app.me(pair.access_token).expect(200);
  });

  it('revokes the session when a rotated token is replayed after the grace', async () => {
    const old = await tokensOf();
    const pair = await rotated(old.refresh_token);
    clock.advance({ seconds: 61 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(pair.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.me(pair.access_token), problems.invalidAccessToken);
    expectProblem(await app.me(old.access_token), problems.invalidAccessToken);
  });

  it('commits the end of the session before it answers', async () => {
    const user = await app.user();
    const old = await user.logsIn();
    await rotated(old.refresh_token);
    clock.advance({ seconds: 61 });
    expectProblem(await app.refresh(old.refresh_token), problems.invalidRefreshToken);
    const rows = await app.database.query('SELECT end_reason, ended_at FROM sessions WHERE user_id = $1', [user.id]);
    expect(rows).toEqual([{ end_reason: 'reuse', ended_at: expect.any(Date) }]);
  });

  it('revokes only the session of the replayed token', async () => {
    const user = await app.user();
    const [stolen, other] = [await user.logsIn(), await user.logsIn()];
    await rotated(stolen.refresh_token);
    clock.advance({ seconds: 61 });
    expectProblem(await app.refresh(stolen.refresh_token), problems.invalidRefreshToken);
    await app.refresh(other.refresh_token).expect(200);
  });

  it('revokes the session also when the replay comes after a restart', async () => {
    const old = await tokensOf();
    const pair = await rotated(old.refresh_token);
    clock.advance({ seconds: 61 });
    const restarted = await app.startReplica();
    expectProblem(await restarted.refresh(old.refresh_token), problems.invalidRefreshToken);
    await restarted.stop();
    expectProblem(await app.refresh(pair.refresh_token), problems.invalidRefreshToken);
  });

  it('revokes the session when a token two generations old is replayed within the grace', async () => {
    const first = await tokensOf();
    const second = await rotated(first.refresh_token);
    const third = await rotated(second.refresh_token);
    expectProblem(await app.refresh(first.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(third.refresh_token), problems.invalidRefreshToken);
  });

  it('refuses the tokens of a disabled or deleted user', async () => {
    const [alice, bob] = [await app.user(), await app.user()];
    const [hers, his] = [await alice.logsIn(), await bob.logsIn()];
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    await app.admin.delete(`/users/${bob.id}`).expect(204);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(his.refresh_token), problems.invalidRefreshToken);
    await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
  });

  it('still works after SECRET_KEY was changed', async () => {
    const { access_token, refresh_token } = await tokensOf();
    const SECRET_KEY = 'another-signing-key-0Q9w8E7r6T5y4U3i2O1p';
    const rekeyed = await app.startReplica({ variables: { SECRET_KEY } });
    expectProblem(await rekeyed.me(access_token), problems.invalidAccessToken);
    const next = (await rekeyed.refresh(refresh_token).expect(200)).body as Tokens;
    await rekeyed.refresh(next.refresh_token).expect(200);
    await rekeyed.stop();
  });
});
