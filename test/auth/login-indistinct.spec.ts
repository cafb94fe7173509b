import { jest } from '@jest/globals';
import bcrypt from 'bcrypt';
import { Piscina } from 'piscina';
import type { Response } from 'supertest';
import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const COST = 5;
const ABSENT = 'nobody@example.org';

/** What a caller can see of an answer, without what names the single request. */
function visible({ status, headers, body }: Response) {
  const { request_id, instance, ...rest } = body as Record<string, unknown>;
  expect([typeof request_id, typeof instance]).toEqual(['string', 'string']);
  const { 'x-request-id': id, date, ...fixed } = headers as Record<string, string>;
  expect([typeof id, typeof date]).toEqual(['string', 'string']);
  return { status, fixed, names: Object.keys(headers), rest };
}

describe('a refused login', () => {
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
  ])('does not tell an unknown address from a wrong password or a disabled account: %s', async (_name, guess) => {
    const unknown = await app.login(ABSENT, guess);
    expectProblem(unknown, problems.invalidCredentials);
    expect(visible(await app.login(alice.email, guess))).toEqual(visible(unknown));
    expect(visible(await app.login(disabled.email, guess))).toEqual(visible(unknown));
    expect(visible(await app.login(disabled.email))).toEqual(visible(unknown));
  });

  it('tells the reason to the log alone', async () => {
    const before = app.log.events('user.login.failed').length;
    await app.login(ABSENT);
    await app.login(alice.email, 'not her passphrase');
    await app.login(disabled.email);
    const reasons = app.log.events('user.login.failed').map(({ reason }) => reason);
    expect(reasons.slice(before)).toEqual(['unknown', 'wrong_password', 'disabled']);
  });

  it('costs one bcrypt at the same cost, whatever the reason', async () => {
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

  it('does not become a login because the account is enabled again', async () => {
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
