import bcrypt from 'bcrypt';
import { Piscina } from 'piscina';
import type { Response } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const COST = 5;
const ABSENT = 'unknown@example.org';

/** What a caller sees of a response, without the ids of the request. */
function visible({ status, headers, body }: Response) {
  const { request_id, instance, ...rest } = body as Record<string, unknown>;
  expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
  const { 'x-request-id': id, date, ...fixed } = headers as Record<string, string>;
  expect([typeof id, typeof date]).toEqual(['string', 'string']);
  return { status, fixed, names: Object.keys(headers), rest };
}

describe('a refused login (against enumeration)', () => {
  const app = useApp({ variables: { BCRYPT_COST: String(COST) } });
  let alice: User;
  let disabled: User;

  beforeAll(async () => {
    [alice, disabled] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
  });

  it.each([
    ['an ordinary password', 'not her passphrase'],
    ['one longer than bcrypt reads', 'x'.repeat(200)],
    ['one with a NUL', 'eight ch\0racters'],
    ['one shorter than the policy wants', 'x'],
    ['a common one', 'password'],
  ])(
    'returns the same response for an unknown address, a wrong password and a disabled account: %s',
    async (_name, guess) => {
      const unknown = await app.login(ABSENT, guess);
      expectProblem(unknown, problems.invalidCredentials);
      expect(visible(await app.login(alice.email, guess))).toEqual(visible(unknown));
      expect(visible(await app.login(disabled.email, guess))).toEqual(visible(unknown));
      expect(visible(await app.login(disabled.email))).toEqual(visible(unknown));
    },
  );

  it('names the reason in the log only', async () => {
    const before = app.log.events('user.login.failed').length;
    await app.login(ABSENT);
    await app.login(alice.email, 'not her passphrase');
    await app.login(disabled.email);
    const reasons = app.log.events('user.login.failed').map(({ reason }) => reason);
    expect(reasons.slice(before)).toEqual(['unknown', 'wrong_password', 'disabled']);
  });

  it('computes one bcrypt hash at the same cost for every reason', async () => {
    const run = jest.spyOn(Piscina.prototype, 'run');
    try {
      for (const email of [ABSENT, alice.email, disabled.email]) {
        run.mockClear();
        expectProblem(await app.login(email, 'not her passphrase'), problems.invalidCredentials);
        const work = run.mock.calls.map(([task, options]) => {
          const { passwordHash } = task as { passwordHash: string };
          expect(passwordHash).toMatch(/^\$2b\$\d\d\$[./A-Za-z0-9]{53}$/);
          return { name: (options as { name: string }).name, cost: bcrypt.getRounds(passwordHash) };
        });
        expect(work).toEqual([{ name: 'verify', cost: COST }]);
      }
    } finally {
      run.mockRestore();
    }
  });

  it('costs the same work for accounts whose hash is older than a raised BCRYPT_COST', async () => {
    const dearer = await app.startReplica({ variables: { BCRYPT_COST: String(COST + 3) } });
    const run = jest.spyOn(Piscina.prototype, 'run');
    try {
      for (const [email, cost] of [
        [ABSENT, COST + 3],
        [alice.email, COST],
        [disabled.email, COST],
      ] as const) {
        run.mockClear();
        expectProblem(await dearer.login(email, 'not her passphrase'), problems.invalidCredentials);
        const [task] = run.mock.calls.map(([each]) => each as { passwordHash: string; padding: number[] });
        const costs = [bcrypt.getRounds(task!.passwordHash), ...task!.padding];
        expect(costs[0]).toBe(cost);
        expect(costs.reduce((work, each) => work + 2 ** each, 0)).toBe(2 ** (COST + 3));
      }
    } finally {
      run.mockRestore();
      await dearer.stop();
    }
  });

  it('stays refused for old sessions when a disabled account is enabled again', async () => {
    const carol = await app.user();
    const { access_token, refresh_token } = await carol.logsIn();
    await app.admin.patch(`/users/${carol.id}`, { is_active: false }).expect(200);
    expectProblem(await app.login(carol.email), problems.invalidCredentials);
    await app.admin.patch(`/users/${carol.id}`, { is_active: true }).expect(200);
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    await app.login(carol.email).expect(200);
  });
});
