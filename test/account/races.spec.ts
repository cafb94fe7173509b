import type { Response } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { holdRow } from '../support/row-lock.js';
import { PASSWORD } from '../support/settings.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import { NEW_PASSWORD, Owner } from '../support/owner.js';

const ROUNDS = 25;

describe('a change of the password that races', () => {
  const app = useApp();
  const other = useReplica(app);

  /** Expects that every token that a racing response issued is refused. */
  const expectDead = async (...answers: Response[]): Promise<void> => {
    for (const { status, body } of answers) {
      expect([200, 401]).toContain(status);
      if (status !== 200) continue;
      const { access_token, refresh_token } = body as Tokens;
      expectProblem(await app.me(access_token), problems.invalidAccessToken);
      expectProblem(await other.refresh(refresh_token), problems.invalidRefreshToken);
    }
  };

  it('with logins and refreshes leaves no session of the old password behind its answer', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const alice = await Owner.of(app);
      const elsewhere = await alice.elsewhere();
      const [changed, ...raced] = await Promise.all([
        alice.changePassword(),
        other.login(alice.user.email),
        app.login(alice.user.email),
        other.refresh(elsewhere.tokens.refresh_token),
      ]);
      expect(changed.status).toBe(204);
      await expectDead(...raced);
      expect(await alice.sessions()).toHaveLength(1);
    }
  });

  it('with a login that verified the old password refuses that login', async () => {
    const alice = await Owner.of(app);
    const row = await holdRow(app.database, 'users', alice.user.id);
    const change = alice.changePassword().then((answer) => answer);
    await row.waiting(1);
    const login = other.login(alice.user.email).then((answer) => answer);
    await row.waiting(2);
    await row.release();
    expect((await change).status).toBe(204);
    expectProblem(await login, problems.invalidCredentials);
    expect(other.log.events('user.login.failed').at(-1)).toMatchObject({ reason: 'changed_meanwhile' });
  });

  it('with a login that begins its session first ends that session', async () => {
    const alice = await Owner.of(app);
    const row = await holdRow(app.database, 'users', alice.user.id);
    const login = other.login(alice.user.email).then((answer) => answer);
    await row.waiting(1);
    const change = alice.changePassword().then((answer) => answer);
    await row.waiting(2);
    await row.release();
    expect((await change).status).toBe(204);
    expect((await login).status).toBe(200);
    await expectDead(await login);
  });

  it('with 49 others succeeds once, and the one that succeeded has set the password', async () => {
    const alice = await Owner.of(app);
    const next = (index: number): string => `${NEW_PASSWORD} ${index}`;
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => alice.changePassword(PASSWORD, next(index), index % 2 ? app : other)),
    );
    const winners = answers.flatMap(({ status }, index) => (status === 204 ? [index] : []));
    expect(winners).toHaveLength(1);
    for (const answer of answers) if (answer.status !== 204) expectProblem(answer, problems.wrongPassword);
    await app.login(alice.user.email, next(winners[0]!)).expect(200);
    expectProblem(await app.login(alice.user.email, next((winners[0]! + 1) % 50)), problems.invalidCredentials);
    expect(await recorded(app, { subject: alice.user.id, event: 'user.password.changed' })).toHaveLength(1);
  });

  it('from two sessions leaves the one alive whose call succeeded', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const one = await Owner.of(app);
      const two = await one.elsewhere();
      const answers = await Promise.all([
        one.changePassword(PASSWORD, `${NEW_PASSWORD} 1`),
        two.changePassword(PASSWORD, `${NEW_PASSWORD} 2`, other),
      ]);
      const succeeded = answers.map(({ status }) => status === 204);
      expect(succeeded.filter(Boolean)).toHaveLength(1);
      expect([await one.isLive(), await two.isLive()]).toEqual(succeeded);
    }
  });

  it('with an operator who disables the user leaves no session', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const alice = await Owner.of(app);
      await Promise.all([
        alice.changePassword(PASSWORD, NEW_PASSWORD, other),
        app.admin.patch(`/users/${alice.user.id}`, { is_active: false }).expect(200),
      ]);
      expect(await alice.isLive()).toBe(false);
    }
  });
});
