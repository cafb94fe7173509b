import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

const ROUNDS = 25;

describe('concurrent refreshes', () => {
  const app = useApp();
  const { clock } = app;
  const replicas = [app, useReplica(app), useReplica(app)];

  const successorsOf = async (refreshToken: string, callers: number): Promise<Set<string>> => {
    const answers = await Promise.all(
      Array.from({ length: callers }, (_, i) => replicas[i % replicas.length]!.refresh(refreshToken)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    return new Set(answers.map(({ body }) => (body as Tokens).refresh_token));
  };

  it('return one successor to 100 parallel callers over three replicas', async () => {
    const alice = await app.user();
    const successors = await successorsOf((await alice.logsIn()).refresh_token, 100);
    expect(successors.size).toBe(1);
    const live = await app.database.query('SELECT generation FROM sessions WHERE user_id = $1 AND ended_at IS NULL', [
      alice.id,
    ]);
    expect(live).toEqual([{ generation: 1 }]);
    await app.refresh([...successors][0]!).expect(200);
  });

  it('return one successor to parallel callers at every rotation of a long session', async () => {
    const alice = await app.user();
    let { refresh_token } = await alice.logsIn();
    for (let round = 0; round < ROUNDS; round++) {
      const successors = await successorsOf(refresh_token, 6);
      expect(successors.size).toBe(1);
      refresh_token = [...successors][0]!;
    }
  });

  it('end the session, in either order, when an attacker and the owner use two generations', async () => {
    const other = replicas[1]!;
    const alice = await app.user();
    for (let round = 0; round < ROUNDS; round++) {
      const old = await alice.logsIn();
      const { refresh_token } = (await app.refresh(old.refresh_token).expect(200)).body as Tokens;
      clock.advance({ seconds: 61 });
      const [stolen, owned] = await Promise.all([other.refresh(old.refresh_token), app.refresh(refresh_token)]);
      expectProblem(stolen, problems.invalidRefreshToken);
      const handedOut = [refresh_token, (owned.body as Partial<Tokens>).refresh_token];
      expect([200, 401]).toContain(owned.status);
      for (const token of handedOut) {
        if (token) expectProblem(await other.refresh(token), problems.invalidRefreshToken);
      }
      expectProblem(await app.me(old.access_token), problems.invalidAccessToken);
    }
  });

  it('end the session once when 30 attackers replay a token', async () => {
    const alice = await app.user();
    const old = await alice.logsIn();
    await app.refresh(old.refresh_token).expect(200);
    clock.advance({ seconds: 61 });
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => replicas[i % replicas.length]!.refresh(old.refresh_token)),
    );
    for (const answer of answers) expectProblem(answer, problems.invalidRefreshToken);
    const rows = await app.database.query('SELECT end_reason FROM sessions WHERE user_id = $1', [alice.id]);
    expect(rows).toEqual([{ end_reason: 'reuse' }]);
  });
});
