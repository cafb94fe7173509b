import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { afterNext } from '../support/at-once.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { Links, receive, receiveToken, useMailServer, workOff } from '../support/mail-server.js';
import { PASSWORD } from '../support/settings.js';
import { useApp, useReplica } from '../support/use-app.js';
import { PasswordVerifier } from '../../src/passwords/password-verifier.js';
import { raceForRow } from '../support/row-lock.js';
import { countByStatus } from '../support/throttled.js';

const newAddress = (): string => `${randomUUID()}@example.org`;

describe('the verification of an e-mail address', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });
  const links = new Links(app, server);

  it('is not needed to log in, and sends no mail to a user who registers', async () => {
    const alice = await app.user();
    await alice.logsIn();
    await workOff(app);
    expect(server.to(alice.email)).toEqual([]);
  });

  it('proves the address once, by a link to the page for it', async () => {
    const bob = await app.user();
    await links.requestVerification(bob.email).expect(202);
    const { text, token } = await receive(app, server, bob.email);
    expect(text).toContain(`https://app.example.org/verify#token=${token}`);
    expect(token).toMatch(/^pa_email_[\w-]{43}$/);
    await links.confirmEmail(token!).expect(204, '');
    expectProblem(await links.confirmEmail(token!), problems.invalidLink);
    await links.requestVerification(bob.email).expect(202);
    await workOff(app);
    expect(server.to(bob.email)).toHaveLength(1);
  });

  it('takes no token of a password reset, nor the reverse', async () => {
    const carol = await app.user();
    const emailToken = await links.verificationToken(carol.email);
    expectProblem(await links.confirmReset(emailToken), problems.invalidLink);
    expectProblem(await links.confirmEmail((await links.handOver(carol.id)).token), problems.invalidLink);
    await links.confirmEmail(emailToken).expect(204);
  });
});

describe('REQUIRE_VERIFIED_EMAIL', () => {
  const { server, variables } = useMailServer();
  const app = useApp({
    variables: Object.defineProperties({ REQUIRE_VERIFIED_EMAIL: 'true' }, Object.getOwnPropertyDescriptors(variables)),
  });
  const links = new Links(app, server);

  it('refuses the right password until the link of the registration is confirmed', async () => {
    const alice = await app.user();
    expectProblem(await app.login(alice.email), problems.emailNotVerified);
    expectProblem(await app.login(alice.email, 'not the passphrase'), problems.invalidCredentials);
    await links.confirmEmail(await receiveToken(app, server, alice.email)).expect(204);
    await app.login(alice.email).expect(200);
  });

  it('also for a user whom an operator created, and counts the refused login', async () => {
    const email = newAddress();
    const { body } = await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
    expectProblem(await app.login(email), problems.emailNotVerified);
    const [failure] = await recorded(app, { subject: (body as { id: string }).id, event: 'user.login.failed' });
    expect(failure).toMatchObject({ details: { reasons: { email_not_verified: 1 } } });
    await links.confirmEmail(await receiveToken(app, server, email)).expect(204);
    await app.login(email).expect(200);
  });

  it('registers no request for a registration that is refused', async () => {
    const carol = await app.user();
    await receive(app, server, carol.email);
    await app.post('/api/v0/auth/register', { email: carol.email, password: PASSWORD }).expect(409);
    expect(await app.database.query('SELECT * FROM mail_requests')).toEqual([]);
  });
});

describe('a change of the own e-mail address', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });
  const replica = useReplica(app);

  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
  const change = (token: string, new_email: string, password = PASSWORD) =>
    app.post('/api/v0/users/me/email', { password, new_email }).set(bearer(token));
  const links = new Links(app, server);

  it('takes effect when the new address confirms it, and the old one is told at once', async () => {
    const [alice, email] = [await app.user(), newAddress()];
    const { access_token } = await alice.logsIn();
    await change(access_token, email).expect(202, '');
    const token = await receiveToken(app, server, email);
    expect(token).toMatch(/^pa_change_[\w-]{43}$/);
    const notice = await receive(app, server, alice.email);
    expect(notice.text).toContain(`the account ${alice.email}`);
    expect(notice.text + notice.html).not.toMatch(new RegExp(`${email}|token`));
    await alice.logsIn();
    await links.confirmEmail(token).expect(204);
    expect((await app.me(access_token).expect(200)).body).toMatchObject({ id: alice.id, email });
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    await app.login(email).expect(200);
    await receive(app, server, alice.email, 2);
    expect(server.to(alice.email).map(({ subject }) => subject)).toContain('Your e-mail address was changed');
  });

  it('takes effect in exactly one of 20 concurrent confirmations over two replicas', async () => {
    const [leo, email] = [await app.user(), newAddress()];
    const token = await links.tokenOf(change((await leo.logsIn()).access_token, email), email);
    const calls = Array.from({ length: 20 }, (_, i) => links.confirmEmail(token, i % 2 ? app : replica));
    const answers = await raceForRow(app.database, 'users', leo.id, calls);
    expect(countByStatus(answers)).toEqual({ 204: 1, 400: 19 });
    expect(await recorded(app, { subject: leo.id, event: 'user.email.changed' })).toHaveLength(1);
  });

  it('is recorded in the feed of changes, by which verifiers forget the old address', async () => {
    const [bob, email] = [await app.user(), newAddress()];
    const token = await links.tokenOf(change((await bob.logsIn()).access_token, email), email);
    const changes = () =>
      app.database.query(`SELECT FROM credential_changes WHERE kind = 'user' AND credential_id = $1`, [bob.id]);
    expect(await changes()).toHaveLength(0);
    await links.confirmEmail(token).expect(204);
    expect(await changes()).toHaveLength(1);
  });

  it('does not tell whether the new address is taken, and sends its owner no link', async () => {
    const [carol, owner] = [await app.user(), await app.user()];
    const { access_token } = await carol.logsIn();
    const [toTaken, toFree] = [await change(access_token, owner.email), await change(access_token, newAddress())];
    const visible = ({ status, text, headers }: typeof toTaken) => ({ status, text, names: Object.keys(headers) });
    expect(visible(toTaken)).toEqual(visible(toFree));
    await change(access_token, owner.email).expect(202);
    await workOff(app);
    expect(server.to(owner.email)).toEqual([]);
  });

  it('is 409 when the new address was taken meanwhile, and the account keeps its own', async () => {
    const [dave, email] = [await app.user(), newAddress()];
    const token = await links.tokenOf(change((await dave.logsIn()).access_token, email), email);
    await app.user(email);
    expectProblem(await links.confirmEmail(token), problems.emailTaken);
    await dave.logsIn();
  });

  it('is stopped by a change of the password, whether its mail was sent or still waits', async () => {
    const [erin, sent, waiting] = [await app.user(), newAddress(), newAddress()];
    const { access_token } = await erin.logsIn();
    const token = await links.tokenOf(change(access_token, sent), sent);
    server.refuse('connect', 421);
    await change(access_token, waiting).expect(202);
    const passwords = { current_password: PASSWORD, new_password: 'another perfectly fine passphrase' };
    await app.post('/api/v0/users/me/password', passwords).set(bearer(access_token)).expect(204);
    server.accept();
    await workOff(app);
    expectProblem(await links.confirmEmail(token), problems.invalidLink);
    expect(server.to(waiting)).toEqual([]);
  });

  it('sends the newest of several wishes only, and voids the links before it', async () => {
    const [grace, first, second] = [await app.user(), newAddress(), newAddress()];
    const { access_token } = await grace.logsIn();
    const old = await links.tokenOf(change(access_token, first), first);
    const token = await links.tokenOf(change(access_token, second), second);
    expectProblem(await links.confirmEmail(old), problems.invalidLink);
    await links.confirmEmail(token).expect(204);
    await app.login(second).expect(200);
  });

  it('with a wrong password is 403, and asks for no mail', async () => {
    const heidi = await app.user();
    const { access_token } = await heidi.logsIn();
    expectProblem(await change(access_token, newAddress(), 'not the passphrase'), problems.wrongPassword);
    expect(await app.database.query('SELECT FROM mail_requests WHERE user_id = $1', [heidi.id])).toEqual([]);
  });

  it('answers 401 when the account was disabled, and 403 when it got another password, after the proof', async () => {
    const [judy, kim] = [await app.user(), await app.user()];
    const tokens = [(await judy.logsIn()).access_token, (await kim.logsIn()).access_token] as const;
    const proof = app.nest.get(PasswordVerifier);
    afterNext(proof, 'reauthenticateUser', () =>
      app.admin.patch(`/users/${judy.id}`, { is_active: false }).expect(200),
    );
    expectProblem(await change(tokens[0], newAddress()), problems.invalidAccessToken);
    const sql = 'UPDATE users SET password_changed_at = now() WHERE id = $1';
    afterNext(proof, 'reauthenticateUser', () => app.database.query(sql, [kim.id]));
    expectProblem(await change(tokens[1], newAddress()), problems.wrongPassword);
    expect(await app.database.query('SELECT FROM mail_requests WHERE user_id = ANY ($1)', [[judy.id, kim.id]])).toEqual(
      [],
    );
  });

  it('refuses an address with a line break or a quoted name, before any mail is made of it', async () => {
    const ivan = await app.user();
    const { access_token } = await ivan.logsIn();
    const broken = [
      'a@example.org\r\nBcc: b@example.org',
      'a@example.org\nSubject: x',
      '<a@example.org>, b@example.org',
    ];
    // A quoted name is another spelling of a mailbox.
    for (const email of [...broken, '"alice"@example.org'])
      expectInvalid(await change(access_token, email), '/new_email');
  });
});
