import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('a refresh whose response was lost', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const answerOf = async (token: string, from = app): Promise<Tokens> =>
    (await from.refresh(token).expect(200)).body as Tokens;

  it('returns the same successor, idempotently, from any replica', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    for (const each of [replica, app, replica]) {
      const again = await answerOf(old.refresh_token, each);
      expect(again.refresh_token).toBe(refresh_token);
      await app.me(again.access_token).expect(200);
    }
    await app.refresh(refresh_token).expect(200);
  });

  it('returns the same successor after a restart', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    const restarted = await app.startReplica();
    expect((await answerOf(old.refresh_token, restarted)).refresh_token).toBe(refresh_token);
    await restarted.stop();
  });

  it('returns the successor until the grace has passed, and then ends the session', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    clock.advance({ seconds: 30 });
    expect((await answerOf(old.refresh_token)).refresh_token).toBe(refresh_token);
    // The repeated response did not restart the grace.
    clock.advance({ seconds: 31 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  });

  it('ends the session when the successor was already used', async () => {
    const old = await tokensOf();
    const { refresh_token: second } = await answerOf(old.refresh_token);
    const { refresh_token: third } = await answerOf(second);
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    for (const token of [third, second, old.refresh_token]) {
      expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    }
  });

  it('may be repeated at every rotation of a session', async () => {
    let { refresh_token } = await tokensOf();
    for (let generation = 0; generation < 5; generation++) {
      const successor = (await answerOf(refresh_token)).refresh_token;
      expect((await answerOf(refresh_token, replica)).refresh_token).toBe(successor);
      refresh_token = successor;
    }
  });

  it('does not change the stored session when it is repeated', async () => {
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    const row = () => app.database.query('SELECT * FROM sessions WHERE user_id = $1', [user.id]);
    await answerOf(refresh_token);
    const rotated = await row();
    clock.advance({ seconds: 30 });
    await answerOf(refresh_token, replica);
    expect(await row()).toEqual(rotated);
  });

  it('is refused when the session has ended', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    await app.logout(refresh_token).expect(204);
    expectProblem(await app.refresh(old.refresh_token), problems.invalidRefreshToken);
  });

  it('takes its grace from REFRESH_GRACE_SECONDS', async () => {
    const none = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '0' } });
    const minutes = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '300' } });
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    clock.advance({ minutes: 2 });
    expect((await answerOf(old.refresh_token, minutes)).refresh_token).toBe(refresh_token);
    expectProblem(await none.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await minutes.refresh(refresh_token), problems.invalidRefreshToken);
    for (const each of [none, minutes]) await each.stop();
  });
});
