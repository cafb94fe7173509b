import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('the lifetime of a session', () => {
  const app = useApp();
  const { clock } = app;
  clock.stop();

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const rotated = async (token: string): Promise<Tokens> => (await app.refresh(token).expect(200)).body as Tokens;

  /** Uses a session every twelve days. */
  const keptAliveFor = async (days: number, tokens: Tokens): Promise<Tokens> => {
    let kept = tokens;
    for (let day = 0; day < days; day += 12) {
      clock.advance({ days: 12 });
      kept = await rotated(kept.refresh_token);
    }
    return kept;
  };

  it('ends REFRESH_TOKEN_EXPIRE_DAYS after the last use', async () => {
    const [used, unused] = [await tokensOf(), await tokensOf()];
    clock.advance({ days: 13, minutes: 23 * 60 });
    const next = await rotated(used.refresh_token);
    clock.advance({ minutes: 61 });
    expectProblem(await app.refresh(unused.refresh_token), problems.invalidRefreshToken);
    clock.advance({ days: 13 });
    await rotated(next.refresh_token);
  });

  it('ends after SESSION_MAX_AGE_DAYS, also when the session is used', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 23 * 60 });
    const last = await rotated(kept.refresh_token);
    clock.advance({ minutes: 61 });
    expectProblem(await app.refresh(last.refresh_token), problems.invalidRefreshToken);
  });

  it('bounds its last access token', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 24 * 60 - 5 });
    const last = await rotated(kept.refresh_token);
    await app.me(last.access_token).expect(200);
    clock.advance({ minutes: 6 });
    expectProblem(await app.me(last.access_token), problems.invalidAccessToken);
  });

  it('is not extended by a repeated refresh', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 24 * 60 - 1, seconds: 55 });
    const last = await rotated(kept.refresh_token);
    expect((await rotated(kept.refresh_token)).refresh_token).toBe(last.refresh_token);
    clock.advance({ seconds: 6 });
    expectProblem(await app.refresh(kept.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(last.refresh_token), problems.invalidRefreshToken);
  });

  it('is SESSION_MAX_AGE_DAYS when that is less than REFRESH_TOKEN_EXPIRE_DAYS', async () => {
    const short = await app.startReplica({ variables: { SESSION_MAX_AGE_DAYS: '1' } });
    const tokens = await (await short.user()).logsIn();
    clock.advance({ days: 1, seconds: 1 });
    expectProblem(await short.refresh(tokens.refresh_token), problems.invalidRefreshToken);
    await short.stop();
  });

  it('is shown to the operator', async () => {
    const user = await app.user();
    await user.logsIn();
    const { body } = await app.admin.get(`/users/${user.id}/sessions`).expect(200);
    const [session] = (body as { items: Record<string, string>[] }).items;
    const day = 24 * 60 * 60 * 1_000;
    const since = (field: string) => Date.parse(session![field]!) - Date.parse(session!.created_at!);
    expect({ sliding: since('expires_at') / day, absolute: since('absolute_expires_at') / day }).toEqual({
      sliding: 14,
      absolute: 90,
    });
  });
});
