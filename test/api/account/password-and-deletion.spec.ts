import { Propagation } from '../../../src/domain/revocation/propagation.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { atOnce, afterNext, repeatRace } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { NEW_PASSWORD, Owner, WRONG } from '../../support/owner.js';
import { PasswordVerifier } from '../../../src/domain/passwords/password-verifier.js';
import { FactorOwner } from '../../domain/second-factors/owner.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

describe('POST /api/v0/users/me/password', () => {
  const rowOf = async (userId: string) =>
    (
      await app.database.query<{ hash: string; changed: Date }>(
        'SELECT password_hash AS hash, password_changed_at AS changed FROM users WHERE id = $1',
        [userId],
      )
    )[0]!;

  it('sets the new password, ends every other session of the user and keeps this one', async () => {
    const [alice, bob] = [await Owner.of(app), await Owner.of(app)];
    const others = [await alice.elsewhere(), await alice.elsewhere()];
    const { body } = await alice.changePassword().expect(204);
    expect(body).toEqual({});
    for (const other of others) for (const each of [app, replica]) expect(await other.isLive(each)).toBe(false);
    for (const kept of [alice, bob]) expect(await kept.isLive(replica)).toBe(true);
    const { body: sessions } = await app.admin.get(`/users/${alice.user.id}/sessions`).expect(200);
    const ended = { end_reason: 'password_changed' };
    expect(sessions).toMatchObject({ items: [{ end_reason: null }, ended, ended] });
    expectProblem(await app.login(alice.user.email), problems.invalidCredentials);
    await replica.login(alice.user.email, NEW_PASSWORD).expect(200);
  });

  it('moves password_changed_at forward at each change, also when the clock of the replica does not', async () => {
    const alice = await Owner.of(app);
    const before = await rowOf(alice.user.id);
    await app.database.query(`UPDATE users SET password_changed_at = now() + interval '1 day' WHERE id = $1`, [
      alice.user.id,
    ]);
    const { changed } = await rowOf(alice.user.id);
    await alice.changePassword().expect(204);
    const after = await rowOf(alice.user.id);
    expect(after.changed.getTime()).toBe(changed.getTime() + 1);
    expect(after.hash).not.toBe(before.hash);
  });

  it('works for an account of a version that did not record when the password was set', async () => {
    const alice = await Owner.of(app);
    await app.database.query('UPDATE users SET password_changed_at = NULL WHERE id = $1', [alice.user.id]);
    await app.login(alice.user.email).expect(200);
    await alice.changePassword().expect(204);
    await app.login(alice.user.email, NEW_PASSWORD).expect(200);
  });

  it('leaves password_changed_at as it is when a login makes the hash anew', async () => {
    const alice = await Owner.of(app);
    const before = await rowOf(alice.user.id);
    const dearer = await app.startReplica({ variables: { BCRYPT_COST: '5' } });
    await dearer.login(alice.user.email).expect(200);
    const after = await rowOf(alice.user.id);
    expect(after.hash).not.toBe(before.hash);
    expect(after.changed).toEqual(before.changed);
    await alice.changePassword().expect(204);
    await dearer.stop();
  });

  it('accepts a password that is longer than bcrypt reads, to its last character', async () => {
    const [alice, next] = [await Owner.of(app), 'x'.repeat(200)];
    await alice.changePassword(PASSWORD, next).expect(204);
    expectProblem(await app.login(alice.user.email, `${next}x`), problems.invalidCredentials);
    await app.login(alice.user.email, next).expect(200);
  });

  it('answers 400 to a new password that is too short, common, too long or empty, whatever the current one', async () => {
    const alice = await Owner.of(app);
    for (const next of ['seven c', 'password123', 'x'.repeat(257), ''])
      for (const current of [PASSWORD, WRONG])
        expectInvalid(await alice.changePassword(current, next), '/new_password');
    await app.login(alice.user.email).expect(200);
  });

  it('answers 400 to a missing or an unknown field', async () => {
    const alice = await Owner.of(app);
    const send = (body: object) => alice.as(app.post('/api/v0/users/me/password', body));
    expectInvalid(await send({ new_password: NEW_PASSWORD }), '/current_password');
    expectInvalid(await send({ current_password: PASSWORD }), '/new_password');
    const answer = await send({ current_password: PASSWORD, new_password: NEW_PASSWORD, user_id: alice.user.id });
    expect(answer.status).toBe(400);
  });

  it('answers 403, not 401, to a wrong current password, and changes nothing', async () => {
    const alice = await Owner.of(app);
    const other = await alice.elsewhere();
    const before = await rowOf(alice.user.id);
    expectProblem(await alice.changePassword(WRONG), problems.wrongPassword);
    expect(await rowOf(alice.user.id)).toEqual(before);
    expect([await alice.isLive(), await other.isLive()]).toEqual([true, true]);
  });

  it('records a change, and counts wrong passwords with the failed logins of the account', async () => {
    app.clock.enterNextWindow();
    const alice = await Owner.of(app);
    await alice.elsewhere();
    const subject = alice.user.id;
    await alice.changePassword(WRONG).expect(403);
    await alice.changePassword(WRONG).expect(403);
    await app.login(alice.user.email, WRONG).expect(401);
    const [failed] = await recorded(app, { subject, event: 'user.login.failed' });
    expect(failed).toMatchObject({ count: 3, details: { reasons: { wrong_current_password: 2, wrong_password: 1 } } });
    await alice.changePassword().expect(204);
    expect(await recorded(app, { subject, event: 'user.password.changed' })).toMatchObject([
      { actor: { door: 'user', id: subject }, count: 1, details: { ended_sessions: 1 } },
    ]);
  });

  it('answers 503 when a wrong password cannot be counted', async () => {
    const alice = await Owner.of(app);
    await app.database.query(`
      CREATE FUNCTION fill_disk() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$;
      CREATE TRIGGER full_disk BEFORE INSERT ON counted_refusals EXECUTE FUNCTION fill_disk()`);
    expectProblem(await alice.changePassword(WRONG), problems.unavailable);
    await app.database.query('DROP TRIGGER full_disk ON counted_refusals');
    expectProblem(await alice.changePassword(WRONG), problems.wrongPassword);
  });
});

describe('wrong current passwords', () => {
  const LIMIT = 4;
  const variables = { ...UNLEASED, LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900` };
  const one = useApp({ variables });
  const two = useReplica(one);

  it('share one budget with wrong logins, over all replicas and routes: 24 at once cost only the limit', async () => {
    const alice = await Owner.of(one);
    const guesses = [
      (on: TestApp) => on.login(alice.user.email, WRONG),
      (on: TestApp) => alice.changePassword(WRONG, NEW_PASSWORD, on),
      (on: TestApp) => alice.changeEmail(`new-${alice.user.email}`, WRONG, on),
      (on: TestApp) => alice.deleteAccount(WRONG, on),
    ];
    const answers = await atOnce(24, (index) => guesses[index % 4]!(index % 8 < 4 ? one : two));
    const counts = countByStatus(answers);
    expect((counts[401] ?? 0) + (counts[403] ?? 0)).toBe(LIMIT);
    expect(counts[429]).toBe(24 - LIMIT);
    const wait = jest.spyOn(one.nest.get(Propagation), 'awaitPropagation');
    expect(expectThrottled(await alice.changePassword())).toMatchObject({ policy: 'login-account-address' });
    expect(expectThrottled(await alice.deleteAccount())).toMatchObject({ points: LIMIT });
    const email = alice.changeEmail(`new-${alice.user.email}`);
    expect(expectThrottled(await email)).toMatchObject({ policy: 'login-account-address' });
    expect(wait).not.toHaveBeenCalled();
    await one.me(alice.tokens.access_token).expect(200);
  });

  it('are the only ones that count', async () => {
    const alice = await Owner.of(one);
    let current = PASSWORD;
    for (let index = 0; index < LIMIT + 2; index += 1) {
      await alice.changePassword(current, `${NEW_PASSWORD} ${index}`).expect(204);
      current = `${NEW_PASSWORD} ${index}`;
    }
  });
});

describe('POST /api/v0/users/me/delete', () => {
  it('deletes the account and every session of it, and the address can be registered again', async () => {
    const alice = await Owner.of(app);
    const other = await alice.elsewhere();
    await alice.deleteAccount().expect(204);
    for (const each of [alice, other]) for (const on of [app, replica]) expect(await each.isLive(on)).toBe(false);
    expectProblem(await replica.login(alice.user.email), problems.invalidCredentials);
    expectProblem(await app.admin.get(`/users/${alice.user.id}`), problems.notFound);
    expect(await app.database.query('SELECT FROM sessions WHERE user_id = $1', [alice.user.id])).toEqual([]);
    expect((await app.user(alice.user.email)).id).not.toBe(alice.user.id);
  });

  it('keeps the account in the audit log and the feed of changes alone, and the address nowhere', async () => {
    const alice = await FactorOwner.withTotp(app);
    await alice.registers();
    const tables = await app.database.query<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`,
    );
    const tablesWith = async (text: string): Promise<string[]> => {
      const found: string[] = [];
      for (const { name } of tables) {
        const sql = `SELECT FROM "${name}" AS entry WHERE strpos(to_jsonb(entry)::text, $1) > 0`;
        if ((await app.database.query(sql, [text])).length > 0) found.push(name);
      }
      return found;
    };
    const { id: subject, email } = alice.user;
    const factors = ['passkeys', 'recovery_codes', 'totp_factors'];
    expect(await tablesWith(subject)).toEqual(expect.arrayContaining([...factors, 'sessions', 'users']));
    await alice.post('/delete', await alice.proof()).expect(204);
    const kept = (await tablesWith(subject)).filter((name) => !name.startsWith('audit_'));
    expect({ kept, address: await tablesWith(email) }).toEqual({ kept: ['credential_changes'], address: [] });
  });

  it('answers 403 to a wrong password and 400 without one, and deletes nothing', async () => {
    const alice = await Owner.of(app);
    expectProblem(await alice.deleteAccount(WRONG), problems.wrongPassword);
    expectInvalid(await alice.as(app.post('/api/v0/users/me/delete', {})), '/password');
    expect(await alice.isLive()).toBe(true);
  });

  it('succeeds once of 20 concurrent calls on two replicas; the others find their session ended', async () => {
    const alice = await Owner.of(app);
    const answers = await atOnce(20, (index) => alice.deleteAccount(PASSWORD, index % 2 ? app : replica));
    expect(countByStatus(answers)).toEqual({ 204: 1, 401: 19 });
    for (const answer of answers) if (answer.status === 401) expectProblem(answer, problems.invalidAccessToken);
    expect(await recorded(app, { subject: alice.user.id, event: 'user.deleted' })).toHaveLength(1);
  });

  it('is refused when an operator disabled the account after the password was verified', async () => {
    const alice = await Owner.of(app);
    const disable = () => app.admin.patch(`/users/${alice.user.id}`, { is_active: false }).expect(200);
    afterNext(app.nest.get(PasswordVerifier), 'reauthenticateUser', disable);
    expectProblem(await alice.deleteAccount(), problems.invalidAccessToken);
    await app.admin.get(`/users/${alice.user.id}`).expect(200);
  });

  it('races with a change of the password: an account whose password was changed is not deleted by the old one', async () => {
    await repeatRace(async () => {
      const alice = await Owner.of(app);
      const thief = await alice.elsewhere();
      const [changed, deleted] = await Promise.all([
        alice.changePassword(PASSWORD, NEW_PASSWORD, replica),
        thief.deleteAccount(),
      ]);
      const exists = (await app.admin.get(`/users/${alice.user.id}`)).status === 200;
      expect([changed.status === 204, deleted.status === 204]).toEqual([exists, !exists]);
      expect(exists ? [401, 403] : [401]).toContain(exists ? deleted.status : changed.status);
    });
  });
});
