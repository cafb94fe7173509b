import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { TestApp, type Tokens } from '../support/test-app.js';

const ROUNDS = 20;

describe('refreshes that race', () => {
  let replicas: TestApp[];

  beforeAll(async () => {
    const first = await TestApp.start();
    replicas = [first];
    for (let i = 0; i < 2; i++) replicas.push(await TestApp.start({ database: first.database }));
  });

  afterAll(async () => {
    for (const replica of replicas.reverse()) await replica.stop();
  });

  it('give 100 parallel callers over three replicas one and the same successor', async () => {
    const [app] = replicas as [TestApp];
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => replicas[i % replicas.length]!.refresh(refresh_token)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const successors = new Set(answers.map(({ body }) => (body as Tokens).refresh_token));
    expect(successors.size).toBe(1);
    const live = await app.database.query('SELECT generation FROM sessions WHERE user_id = $1 AND ended_at IS NULL', [
      alice.id,
    ]);
    expect(live).toEqual([{ generation: 1 }]);
    await app.refresh([...successors][0]!).expect(200);
  });

  it('leave nothing alive once a logout has answered', async () => {
    const [app, other] = replicas as [TestApp, TestApp];
    const alice = await app.user();
    for (let round = 0; round < ROUNDS; round++) {
      const { refresh_token } = await alice.logsIn();
      const [refreshed] = await Promise.all([other.refresh(refresh_token), app.logout(refresh_token).expect(204)]);
      for (const token of [refresh_token, (refreshed.body as Partial<Tokens>).refresh_token]) {
        if (token) expectProblem(await other.refresh(token), problems.invalidRefreshToken);
      }
      if (refreshed.status === 200) {
        expectProblem(await app.me((refreshed.body as Tokens).access_token), problems.invalidAccessToken);
      }
    }
    expect(
      await app.database.query('SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL', [alice.id]),
    ).toEqual([]);
  });

  it('leave nothing alive once an administrator has disabled the user', async () => {
    const [app, other] = replicas as [TestApp, TestApp];
    for (let round = 0; round < ROUNDS; round++) {
      const alice = await app.user();
      const { refresh_token } = await alice.logsIn();
      await Promise.all([
        other.refresh(refresh_token),
        other.login(alice.email),
        app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200),
      ]);
      await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
      const live = 'SELECT end_reason FROM sessions WHERE user_id = $1 AND ended_at IS NULL';
      expect(await app.database.query(live, [alice.id])).toEqual([]);
    }
  });
});
