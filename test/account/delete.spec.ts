import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { PasswordVerifier } from '../../src/passwords/password-verifier.js';
import { afterNext } from '../support/after-next.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { countByStatus } from '../support/throttled.js';
import { useApp, useReplica } from '../support/use-app.js';
import { NEW_PASSWORD, Owner, WRONG } from '../support/owner.js';
import { FactorOwner } from '../second-factors/owner.js';

describe('POST /api/v0/users/me/delete', () => {
  const app = useApp();
  const replica = useReplica(app);

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

  it('deletes the second factors: beside the audit log, only the feed of changes still names the account', async () => {
    const alice = await FactorOwner.withTotp(app);
    await alice.registers();
    const tables = await app.database.query<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`,
    );
    const namingTables = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const { name } of tables.filter((table) => !table.name.startsWith('audit_'))) {
        const sql = `SELECT FROM "${name}" AS entry WHERE strpos(to_jsonb(entry)::text, $1) > 0`;
        if ((await app.database.query(sql, [alice.user.id])).length > 0) found.push(name);
      }
      return found.sort();
    };
    const factors = ['passkeys', 'recovery_codes', 'totp_factors'];
    expect(await namingTables()).toEqual(expect.arrayContaining([...factors, 'sessions', 'users']));
    await alice.deleteAccount().expect(204);
    expect(await namingTables()).toEqual(['credential_changes']);
  });

  it('keeps the act in the audit log, and the address nowhere', async () => {
    const alice = await Owner.of(app);
    await alice.deleteAccount().expect(204);
    const subject = alice.user.id;
    expect(await recorded(app, { subject, event: 'user.deleted' })).toMatchObject([
      { actor: { door: 'user', id: subject }, count: 1 },
    ]);
    const tables = await app.database.query<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`,
    );
    for (const { name } of tables) {
      const rows = await app.database.query(`SELECT * FROM "${name}"`);
      expect({ name, found: JSON.stringify(rows).includes(alice.user.email) }).toEqual({ name, found: false });
    }
  });

  it('answers 403 to a wrong password, and deletes nothing', async () => {
    const alice = await Owner.of(app);
    expectProblem(await alice.deleteAccount(WRONG), problems.wrongPassword);
    expect(await alice.isLive()).toBe(true);
  });

  it('answers 400 without a password', async () => {
    const alice = await Owner.of(app);
    expectInvalid(await alice.as(app.post('/api/v0/users/me/delete', {})), '/password');
  });

  it('succeeds once of 50 concurrent calls on two replicas; the others find their session ended', async () => {
    const alice = await Owner.of(app);
    const calls = Array.from({ length: 50 }, (_, index) => alice.deleteAccount(PASSWORD, index % 2 ? app : replica));
    const answers = await Promise.all(calls);
    expect(countByStatus(answers)).toEqual({ 204: 1, 401: 49 });
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
    for (let round = 0; round < 25; round += 1) {
      const alice = await Owner.of(app);
      const thief = await alice.elsewhere();
      const [changed, deleted] = await Promise.all([
        alice.changePassword(PASSWORD, NEW_PASSWORD, replica),
        thief.deleteAccount(),
      ]);
      const exists = (await app.admin.get(`/users/${alice.user.id}`)).status === 200;
      expect([changed.status === 204, deleted.status === 204]).toEqual([exists, !exists]);
      expect(exists ? [401, 403] : [401]).toContain(exists ? deleted.status : changed.status);
    }
  });
});
