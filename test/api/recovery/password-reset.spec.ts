import { problems } from '../../../src/foundation/problems/problems.js';
import { expectEnded, expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { Links, receive, useMailServer, workOff } from '../../support/mail-server.js';
import { NEW_PASSWORD } from '../../support/owner.js';
import { PASSWORD } from '../../support/settings.js';
import { recorded } from '../../domain/audit/record.js';
import { raceForRow } from '../../support/row-lock.js';
import { countByStatus } from '../../support/throttled.js';
import { FactorOwner, logInAlone } from '../../domain/second-factors/owner.js';
import { useApp } from '../../support/use-app.js';
import { eventually } from '../../../tools/eventually.js';
import type { Response } from 'supertest';

const { server, variables } = useMailServer();
const app = useApp({ variables });
const links = new Links(app, server);

describe('a password reset by e-mail', () => {
  it('sets the password once, ends every session on every replica before it answers, and proves the address', async () => {
    const alice = await app.user();
    const tokens = await alice.logsIn();
    const replica = await app.startReplica();
    await replica.me(tokens.access_token).expect(200);
    const token = await links.resetToken(alice.email);
    expect(token).toMatch(/^pa_reset_[\w-]{43}$/);
    await links.confirmReset(token).expect(204, '');
    for (const each of [replica, app]) await expectEnded(tokens, each);
    await replica.stop();
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    await app.login(alice.email, NEW_PASSWORD).expect(200);
    const [row] = await app.database.query('SELECT email_verified_at FROM users WHERE id = $1', [alice.id]);
    expect(row).toEqual({ email_verified_at: expect.any(Date) });
    await workOff(app);
    const isTold = () => server.to(alice.email).some(({ subject }) => subject === 'Your password was changed');
    await eventually('the user is told of the reset', isTold);
    expectProblem(await links.confirmReset(token, PASSWORD), problems.invalidLink);
  });

  it('keeps the second factors, also of an account whose address was never proven', async () => {
    const owner = await FactorOwner.of(app);
    await owner.enrols();
    const passkey = await owner.registers();
    await links.confirmReset(await links.resetToken(owner.user.email)).expect(204);
    const { methods } = await owner.isChallenged(app, NEW_PASSWORD);
    expect(methods).toEqual(['totp', 'recovery_code', 'passkey']);
    expect((await logInAlone(app, passkey)).status).toBe(200);
    const [reset] = await recorded(app, { event: 'user.password.reset', subject: owner.user.id });
    expect(reset!.details).not.toHaveProperty('removed_factors');
  });

  it('sends a mail with the link in both alternatives, the token in the fragment, and no other address', async () => {
    const bob = await app.user();
    await links.requestReset(bob.email.toUpperCase()).expect(202);
    const mail = await receive(app, server, bob.email);
    const link = `https://app.example.org/reset?from=mail#token=${mail.token}`;
    expect(mail.text).toContain(link);
    expect(mail.html).toContain(`href="${link}"`);
    expect(mail.subject).toBe('Reset your password');
    expect(mail.headers).toMatch(/^From: "?Example"? <accounts@example\.org>$/m);
    expect(mail.headers).toMatch(/^Auto-Submitted: auto-generated$/m);
    expect(mail.headers).toContain(`To: ${bob.email}`);
  });

  it('accepts exactly one of 20 concurrent confirmations with one token', async () => {
    const carol = await app.user();
    const token = await links.resetToken(carol.email);
    const passwords = Array.from({ length: 20 }, (_, index) => `${NEW_PASSWORD} ${index}`);
    const calls = passwords.map((password) => links.confirmReset(token, password));
    const answers = await raceForRow(app.database, 'users', carol.id, calls);
    expect(countByStatus(answers)).toEqual({ 204: 1, 400: 19 });
    await app.login(carol.email, passwords[answers.findIndex(({ status }) => status === 204)]).expect(200);
  });

  it('does not use the token when the password is refused', async () => {
    const dave = await app.user();
    const token = await links.resetToken(dave.email);
    expectInvalid(await links.confirmReset(token, 'password'), '/new_password');
    expectInvalid(await links.confirmReset(token, 'short'), '/new_password');
    await links.confirmReset(token).expect(204);
  });

  it('answers the same problem to every token that is not valid', async () => {
    const erin = await app.user();
    const [used, expired, superseded] = [
      await links.resetToken(erin.email),
      await links.resetToken((await app.user('expired@example.org')).email),
      await links.resetToken((await app.user('superseded@example.org')).email),
    ];
    await links.confirmReset(used).expect(204);
    const isExpired = `UPDATE one_time_tokens SET expires_at = now() - interval '1 second'
      FROM users WHERE users.id = user_id AND users.email = 'expired@example.org'`;
    await app.database.query(isExpired);
    const newest = await links.resetToken('superseded@example.org');
    const answers: Response[] = [];
    for (const token of [used, expired, superseded, `pa_reset_${'A'.repeat(43)}`, 'x', '💥'])
      answers.push(await links.confirmReset(token));
    const bodies = answers.map(({ status, body }) => ({ status, ...(body as object), request_id: '', instance: '' }));
    expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
    expectProblem(answers[0]!, problems.invalidLink);
    await links.confirmReset(newest).expect(204);
  });

  it('is valid for 30 minutes by the clock of PostgreSQL', async () => {
    const frank = await app.user();
    await links.resetToken(frank.email);
    const [row] = await app.database.query<{ left: string }>(
      `SELECT ceil(extract(epoch FROM expires_at - now()) / 60)::text AS left FROM one_time_tokens WHERE user_id = $1`,
      [frank.id],
    );
    expect(row!.left).toBe('30');
  });

  it.each<[string, string, number?]>([
    ['the user changes the password', 'UPDATE users SET password_changed_at = now() WHERE id = $1'],
    ['the address of the account changes', `UPDATE users SET email = 'moved-' || email WHERE id = $1`],
    ['the account is disabled', 'UPDATE users SET is_active = false WHERE id = $1'],
    ['the account was disabled and enabled', 'UPDATE users SET is_active = NOT is_active WHERE id = $1', 2],
    ['the account is deleted', 'DELETE FROM users WHERE id = $1'],
  ])('is void after %s, whatever code did it', async (_what, sql, times = 1) => {
    const grace = await app.user();
    const token = await links.resetToken(grace.email);
    for (let time = 0; time < times; time += 1) await app.database.query(sql, [grace.id]);
    expectProblem(await links.confirmReset(token), problems.invalidLink);
  });

  it('stays valid when a login stores another hash of the same password', async () => {
    const kate = await app.user();
    const token = await links.resetToken(kate.email);
    const rehash = `UPDATE users SET password_hash = replace(password_hash, '$04$', '$05$') WHERE id = $1 RETURNING id`;
    expect(await app.database.query(rehash, [kate.id])).toHaveLength(1);
    await links.confirmReset(token).expect(204);
  });

  it('sends no mail to an unknown address or a disabled account, and leaves no request behind', async () => {
    const heidi = await app.user();
    await app.admin.patch(`/users/${heidi.id}`, { is_active: false }).expect(200);
    await links.requestReset(heidi.email).expect(202);
    await links.requestReset('unknown@example.org').expect(202);
    await workOff(app);
    expect([...server.to(heidi.email), ...server.to('unknown@example.org')]).toEqual([]);
    expect(await app.database.query('SELECT * FROM mail_requests')).toEqual([]);
  });
});

describe('a password reset by an operator', () => {
  it('gives a token that sets the password once, and proves no address', async () => {
    const alice = await app.user();
    const { token, expires_at } = await links.handOver(alice.id);
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now());
    await links.confirmReset(token).expect(204);
    await app.login(alice.email, NEW_PASSWORD).expect(200);
    const [row] = await app.database.query('SELECT email_verified_at FROM users WHERE id = $1', [alice.id]);
    expect(row).toEqual({ email_verified_at: null });
    expectProblem(await links.confirmReset(token), problems.invalidLink);
  });

  it('is not replaced by a request of an anonymous client, and replaces the token before it', async () => {
    const bob = await app.user();
    const [first, second] = [await links.handOver(bob.id), await links.handOver(bob.id)];
    await links.resetToken(bob.email);
    expectProblem(await links.confirmReset(first.token), problems.invalidLink);
    await links.confirmReset(second.token).expect(204);
  });

  it('is refused with 409 while the user is disabled, and voids no token', async () => {
    const carol = await app.user();
    await app.admin.patch(`/users/${carol.id}`, { is_active: false }).expect(200);
    expectProblem(await app.admin.post(`/users/${carol.id}/password-reset`), problems.userDisabled);
    expect(await app.database.query('SELECT 1 FROM one_time_tokens WHERE user_id = $1', [carol.id])).toEqual([]);
    await app.admin.patch(`/users/${carol.id}`, { is_active: true }).expect(200);
    await links.confirmReset((await links.handOver(carol.id)).token).expect(204);
  });

  it('answers 404 for an unknown user, and for an id that is not a UUID', async () => {
    expectProblem(
      await app.admin.post('/users/0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f/password-reset'),
      problems.notFound,
    );
    expectProblem(await app.admin.post('/users/alice/password-reset'), problems.notFound);
  });
});
