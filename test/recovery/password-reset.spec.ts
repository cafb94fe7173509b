import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { receiveToken, useMailServer, workOff, receive } from '../support/mail-server.js';
import { PASSWORD } from '../support/settings.js';
import { recorded } from '../audit/record.js';
import { raceForRow } from '../support/row-lock.js';
import { countByStatus } from '../support/throttled.js';
import { Authenticator } from '../second-factors/authenticator.js';
import { logInWithPasskey, FactorOwner, passkeyOptions, type CreationOptions } from '../second-factors/owner.js';
import type { Tokens } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';
import { eventually } from '../../tools/eventually.js';
import type { Response } from 'supertest';

const NEW_PASSWORD = 'another perfectly fine passphrase';

describe('a password reset by e-mail', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });

  const request = (email: string) => app.post('/api/v0/auth/password-reset', { email });
  const confirm = (token: string, new_password = NEW_PASSWORD) =>
    app.post('/api/v0/auth/password-reset/confirm', { token, new_password });
  const tokenFor = async (email: string): Promise<string> => {
    const count = server.tokensTo(email).length + 1;
    await request(email).expect(202);
    return receiveToken(app, server, email, count);
  };

  it('sets the password once, ends every session, and proves the address', async () => {
    const alice = await app.user();
    const { access_token, refresh_token } = await alice.logsIn();
    const token = await tokenFor(alice.email);
    expect(token).toMatch(/^pa_reset_[\w-]{43}$/);
    await confirm(token).expect(204, '');
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    await app.login(alice.email, NEW_PASSWORD).expect(200);
    const [row] = await app.database.query('SELECT email_verified_at FROM users WHERE id = $1', [alice.id]);
    expect(row).toEqual({ email_verified_at: expect.any(Date) });
    await workOff(app);
    const isTold = () => server.to(alice.email).some(({ subject }) => subject === 'Your password was changed');
    await eventually('the user is told of the reset', isTold);
    expectProblem(await confirm(token, PASSWORD), problems.invalidLink);
  });

  it('removes second factors that were added before the address was proven, and keeps later ones', async () => {
    const stranger = await FactorOwner.of(app);
    await stranger.registers();
    await confirm(await tokenFor(stranger.user.email)).expect(204);
    await app.login(stranger.user.email, NEW_PASSWORD).expect(200);
    const owner = await FactorOwner.of(app);
    await app.database.query('UPDATE users SET email_verified_at = now() WHERE id = $1', [owner.user.id]);
    await owner.registers();
    await confirm(await tokenFor(owner.user.email)).expect(204);
    expectProblem(await app.login(owner.user.email, NEW_PASSWORD), problems.secondFactorRequired);
  });

  it('removes factors from before the proof of the address also when a link of the verification proved it', async () => {
    const stranger = await FactorOwner.of(app);
    const theirs = await stranger.registers();
    await stranger.enrols();
    const { email, id } = stranger.user;
    await app.post('/api/v0/auth/email-verification', { email }).expect(202);
    const token = await receiveToken(app, server, email);
    await app.post('/api/v0/auth/email-verification/confirm', { token }).expect(204);
    const kept = await stranger.registers();
    await confirm(await tokenFor(email)).expect(204);
    expectProblem(await logInWithPasskey(app, theirs.get(await passkeyOptions(app))), problems.invalidPasskey);
    expect(await stranger.isChallenged(app, NEW_PASSWORD)).toMatchObject({ methods: ['passkey'] });
    await logInWithPasskey(app, kept.get(await passkeyOptions(app))).expect(200);
    const [reset] = await recorded(app, { event: 'user.password.reset', subject: id });
    expect(reset!.details).toMatchObject({ removed_factors: { totp: 1, passkeys: 1 } });
    expect(await app.database.query('SELECT FROM recovery_codes WHERE user_id = $1', [id])).toEqual([]);
  });

  it('removes factors from before the proof also when the replica that made them has a clock that is ahead', async () => {
    const stranger = await FactorOwner.of(app);
    await stranger.registers();
    const { email, id } = stranger.user;
    await app.database.query(`UPDATE passkeys SET created_at = created_at + interval '1 hour' WHERE user_id = $1`, [
      id,
    ]);
    await app.post('/api/v0/auth/email-verification', { email }).expect(202);
    const token = await receiveToken(app, server, email);
    await app.post('/api/v0/auth/email-verification/confirm', { token }).expect(204);
    await confirm(await tokenFor(email)).expect(204);
    await app.login(email, NEW_PASSWORD).expect(200);
  });

  it('keeps factors from between the first proof and a change of the address', async () => {
    const owner = await FactorOwner.of(app);
    await confirm(await tokenFor(owner.user.email)).expect(204);
    const { access_token } = (await app.login(owner.user.email, NEW_PASSWORD).expect(200)).body as Tokens;
    const bearer = { Authorization: `Bearer ${access_token}` };
    const options = await app.post('/api/v0/users/me/passkeys/options', { password: NEW_PASSWORD }).set(bearer);
    const passkey = new Authenticator().create(options.body as CreationOptions);
    await app.post('/api/v0/users/me/passkeys', { name: 'phone', passkey }).set(bearer).expect(201);
    const email = `moved-${owner.user.email}`;
    const change = { password: NEW_PASSWORD, new_email: email };
    await app.post('/api/v0/users/me/email', change).set(bearer).expect(202);
    const token = await receiveToken(app, server, email);
    await app.post('/api/v0/auth/email-verification/confirm', { token }).expect(204);
    await confirm(await tokenFor(email), PASSWORD).expect(204);
    expectProblem(await app.login(email), problems.secondFactorRequired);
  });

  it('is refused after the account was disabled, also when it is enabled again', async () => {
    const user = await app.user();
    const token = await tokenFor(user.email);
    await app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200);
    await app.admin.patch(`/users/${user.id}`, { is_active: true }).expect(200);
    expectProblem(await confirm(token), problems.invalidLink);
  });

  it('sends a mail with the link in both alternatives, the token in the fragment, and no other address', async () => {
    const bob = await app.user();
    await request(bob.email.toUpperCase()).expect(202);
    const mail = await receive(app, server, bob.email);
    const link = `https://app.example.org/reset?from=mail#token=${mail.token}`;
    expect(mail.text).toContain(link);
    expect(mail.html).toContain(`href="${link}"`);
    expect(mail.subject).toBe('Reset your password');
    expect(mail.headers).toMatch(/^From: "?Example"? <accounts@example\.org>$/m);
    expect(mail.headers).toMatch(/^Auto-Submitted: auto-generated$/m);
    expect(mail.headers).toContain(`To: ${bob.email}`);
  });

  it('accepts exactly one of 50 concurrent confirmations with one token', async () => {
    const carol = await app.user();
    const token = await tokenFor(carol.email);
    const passwords = Array.from({ length: 50 }, (_, index) => `${NEW_PASSWORD} ${index}`);
    const calls = passwords.map((password) => confirm(token, password));
    const answers = await raceForRow(app.database, 'users', carol.id, calls);
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 204)).toHaveLength(1);
    expect(statuses.filter((status) => status === 400)).toHaveLength(49);
    await app.login(carol.email, passwords[statuses.indexOf(204)]).expect(200);
  });

  it('does not use the token when the password is refused', async () => {
    const dave = await app.user();
    const token = await tokenFor(dave.email);
    expectInvalid(await confirm(token, 'password'), '/new_password');
    expectInvalid(await confirm(token, 'short'), '/new_password');
    await confirm(token).expect(204);
  });

  it('answers the same problem to every token that is not valid', async () => {
    const erin = await app.user();
    const [used, expired, superseded] = [
      await tokenFor(erin.email),
      await tokenFor((await app.user('expired@example.org')).email),
      await tokenFor((await app.user('superseded@example.org')).email),
    ];
    await confirm(used).expect(204);
    const isExpired = `UPDATE one_time_tokens SET expires_at = now() - interval '1 second'
      FROM users WHERE users.id = user_id AND users.email = 'expired@example.org'`;
    await app.database.query(isExpired);
    const newest = await tokenFor('superseded@example.org');
    const answers: Response[] = [];
    for (const token of [used, expired, superseded, `pa_reset_${'A'.repeat(43)}`, 'x', '💥'])
      answers.push(await confirm(token));
    const bodies = answers.map(({ status, body }) => ({ status, ...(body as object), request_id: '', instance: '' }));
    expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
    expectProblem(answers[0]!, problems.invalidLink);
    await confirm(newest).expect(204);
  });

  it('is valid for 30 minutes by the clock of PostgreSQL', async () => {
    const frank = await app.user();
    await tokenFor(frank.email);
    const [row] = await app.database.query<{ left: string }>(
      `SELECT ceil(extract(epoch FROM expires_at - now()) / 60)::text AS left FROM one_time_tokens WHERE user_id = $1`,
      [frank.id],
    );
    expect(row!.left).toBe('30');
  });

  it.each([
    ['the user changes the password', 'UPDATE users SET password_changed_at = now() WHERE id = $1'],
    ['the address of the account changes', `UPDATE users SET email = 'moved-' || email WHERE id = $1`],
    ['the account is disabled', 'UPDATE users SET is_active = false WHERE id = $1'],
    ['the account is deleted', 'DELETE FROM users WHERE id = $1'],
  ])('is void after %s, whatever code did it', async (_what, sql) => {
    const grace = await app.user();
    const token = await tokenFor(grace.email);
    await app.database.query(sql, [grace.id]);
    expectProblem(await confirm(token), problems.invalidLink);
  });

  it('is void after a change of the password', async () => {
    const judy = await app.user();
    const { access_token } = await judy.logsIn();
    const token = await tokenFor(judy.email);
    await app
      .post('/api/v0/users/me/password', { current_password: PASSWORD, new_password: NEW_PASSWORD })
      .set('Authorization', `Bearer ${access_token}`)
      .expect(204);
    expectProblem(await confirm(token, PASSWORD), problems.invalidLink);
  });

  it('stays valid when a login rehashes the password', async () => {
    const kate = await app.user();
    const token = await tokenFor(kate.email);
    const hash = 'SELECT password_hash FROM users WHERE id = $1';
    const before = await app.database.query(hash, [kate.id]);
    const replica = await app.startReplica({ variables: { BCRYPT_COST: '5' } });
    await replica.login(kate.email).expect(200);
    await replica.stop();
    expect(await app.database.query(hash, [kate.id])).not.toEqual(before);
    await confirm(token).expect(204);
  });

  it('sends no mail to an unknown address or a disabled account, and leaves no request behind', async () => {
    const heidi = await app.user();
    await app.admin.patch(`/users/${heidi.id}`, { is_active: false }).expect(200);
    await request(heidi.email).expect(202);
    await request('unknown@example.org').expect(202);
    await workOff(app);
    expect([...server.to(heidi.email), ...server.to('unknown@example.org')]).toEqual([]);
    expect(await app.database.query('SELECT * FROM mail_requests')).toEqual([]);
  });

  it('ends the sessions on every replica before it answers', async () => {
    const ivan = await app.user();
    const { access_token } = await ivan.logsIn();
    const token = await tokenFor(ivan.email);
    const replica = await app.startReplica();
    await replica.me(access_token).expect(200);
    await confirm(token).expect(204);
    expectProblem(await replica.me(access_token), problems.invalidAccessToken);
    await replica.stop();
  });
});

describe('a password reset by an operator', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });
  const confirm = (token: string) =>
    app.post('/api/v0/auth/password-reset/confirm', { token, new_password: NEW_PASSWORD });

  it('gives a token that sets the password once, and proves no address', async () => {
    const alice = await app.user();
    const { body } = await app.admin.post(`/users/${alice.id}/password-reset`).expect(201);
    const { token, expires_at } = body as { token: string; expires_at: string };
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now());
    await confirm(token).expect(204);
    await app.login(alice.email, NEW_PASSWORD).expect(200);
    const [row] = await app.database.query('SELECT email_verified_at FROM users WHERE id = $1', [alice.id]);
    expect(row).toEqual({ email_verified_at: null });
    expectProblem(await confirm(token), problems.invalidLink);
  });

  it('accepts exactly one of 50 concurrent confirmations with one token', async () => {
    const dave = await app.user();
    const { body } = await app.admin.post(`/users/${dave.id}/password-reset`).expect(201);
    const { token } = body as { token: string };
    const calls = Array.from({ length: 50 }, () => confirm(token));
    const answers = await raceForRow(app.database, 'users', dave.id, calls);
    expect(countByStatus(answers)).toEqual({ 204: 1, 400: 49 });
    expect(await recorded(app, { subject: dave.id, event: 'user.password.reset' })).toHaveLength(1);
  });

  it('is not replaced by a request of an anonymous client, and replaces the token before it', async () => {
    const bob = await app.user();
    const first = await app.admin.post(`/users/${bob.id}/password-reset`).expect(201);
    const second = await app.admin.post(`/users/${bob.id}/password-reset`).expect(201);
    await app.post('/api/v0/auth/password-reset', { email: bob.email }).expect(202);
    await receive(app, server, bob.email);
    expectProblem(await confirm((first.body as { token: string }).token), problems.invalidLink);
    await confirm((second.body as { token: string }).token).expect(204);
  });

  it('is refused with 409 while the user is disabled, and voids no token', async () => {
    const carol = await app.user();
    await app.admin.patch(`/users/${carol.id}`, { is_active: false }).expect(200);
    expectProblem(await app.admin.post(`/users/${carol.id}/password-reset`), problems.userDisabled);
    expect(await app.database.query('SELECT 1 FROM one_time_tokens WHERE user_id = $1', [carol.id])).toEqual([]);
    await app.admin.patch(`/users/${carol.id}`, { is_active: true }).expect(200);
    const { body } = await app.admin.post(`/users/${carol.id}/password-reset`).expect(201);
    await confirm((body as { token: string }).token).expect(204);
  });

  it('answers 404 for an unknown user, and for an id that is not a UUID', async () => {
    expectProblem(
      await app.admin.post('/users/0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f/password-reset'),
      problems.notFound,
    );
    expectProblem(await app.admin.post('/users/alice/password-reset'), problems.notFound);
  });
});
