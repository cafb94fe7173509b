import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { afterNext } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { Links, receive, receiveToken, useMailServer, workOff } from '../../support/mail-server.js';
import { Owner, WRONG } from '../../support/owner.js';
import { PASSWORD } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { PasswordVerifier } from '../../../src/domain/passwords/password-verifier.js';
import { raceForRow } from '../../support/row-lock.js';
import { countByStatus } from '../../support/throttled.js';

const newAddress = (): string => `${randomUUID()}@example.org`;

const { server, variables } = useMailServer();
const app = useApp({ variables });
const links = new Links(app, server);

describe('the verification of an e-mail address', () => {
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
  const replica = useReplica(app);

  it('takes effect when the new address confirms it, and the old one is told at once', async () => {
    const [alice, email] = [await Owner.of(app), newAddress()];
    const former = alice.user.email;
    await alice.changeEmail(email).expect(202, '');
    const token = await receiveToken(app, server, email);
    expect(token).toMatch(/^pa_change_[\w-]{43}$/);
    const notice = await receive(app, server, former);
    expect(notice.text).toContain(`the account ${former}`);
    expect(notice.text + notice.html).not.toMatch(new RegExp(`${email}|token`));
    await alice.elsewhere();
    await links.confirmEmail(token).expect(204);
    expect((await app.me(alice.tokens.access_token).expect(200)).body).toMatchObject({ id: alice.user.id, email });
    expectProblem(await app.login(former), problems.invalidCredentials);
    await app.login(email).expect(200);
    await receive(app, server, former, 2);
    expect(server.to(former).map(({ subject }) => subject)).toContain('Your e-mail address was changed');
  });

  it('takes effect, and is in the feed of changes, once in 20 concurrent confirmations over two replicas', async () => {
    const [leo, email] = [await Owner.of(app), newAddress()];
    const { id } = leo.user;
    const token = await links.tokenOf(leo.changeEmail(email), email);
    const sql = `SELECT FROM credential_changes WHERE kind = 'user' AND credential_id = $1`;
    expect(await app.database.query(sql, [id])).toHaveLength(0);
    const calls = Array.from({ length: 20 }, (_, i) => links.confirmEmail(token, i % 2 ? app : replica));
    expect(countByStatus(await raceForRow(app.database, 'users', id, calls))).toEqual({ 204: 1, 400: 19 });
    expect(await app.database.query(sql, [id])).toHaveLength(1);
    expect(await recorded(app, { subject: id, event: 'user.email.changed' })).toHaveLength(1);
  });

  it('does not tell whether the new address is taken, and sends its owner no link', async () => {
    const [carol, owner] = [await Owner.of(app), await app.user()];
    const [toTaken, toFree] = [await carol.changeEmail(owner.email), await carol.changeEmail(newAddress())];
    const visible = ({ status, text, headers }: typeof toTaken) => ({ status, text, names: Object.keys(headers) });
    expect(visible(toTaken)).toEqual(visible(toFree));
    await carol.changeEmail(owner.email).expect(202);
    await workOff(app);
    expect(server.to(owner.email)).toEqual([]);
  });

  it('is 409 when the new address was taken meanwhile, and the account keeps its own', async () => {
    const [dave, email] = [await Owner.of(app), newAddress()];
    const token = await links.tokenOf(dave.changeEmail(email), email);
    await app.user(email);
    expectProblem(await links.confirmEmail(token), problems.emailTaken);
    await dave.elsewhere();
  });

  it('is stopped by a change of the password, whether its mail was sent or still waits', async () => {
    const [erin, sent, waiting] = [await Owner.of(app), newAddress(), newAddress()];
    const token = await links.tokenOf(erin.changeEmail(sent), sent);
    server.refuse('connect', 421);
    await erin.changeEmail(waiting).expect(202);
    await workOff(app);
    await erin.changePassword().expect(204);
    server.accept();
    await workOff(app);
    expectProblem(await links.confirmEmail(token), problems.invalidLink);
    expect(server.to(waiting)).toEqual([]);
  });

  it('sends the newest of several wishes only, and voids the links before it', async () => {
    const [grace, first, second] = [await Owner.of(app), newAddress(), newAddress()];
    const old = await links.tokenOf(grace.changeEmail(first), first);
    const token = await links.tokenOf(grace.changeEmail(second), second);
    expectProblem(await links.confirmEmail(old), problems.invalidLink);
    await links.confirmEmail(token).expect(204);
    await app.login(second).expect(200);
  });

  it('asks for no mail with a wrong password (403), nor when the account is disabled (401) or gets another one after the proof', async () => {
    const [judy, kim] = [await Owner.of(app), await Owner.of(app)];
    const ids = [judy.user.id, kim.user.id];
    expectProblem(await judy.changeEmail(newAddress(), WRONG), problems.wrongPassword);
    const proof = app.nest.get(PasswordVerifier);
    const disable = () => app.admin.patch(`/users/${ids[0]}`, { is_active: false }).expect(200);
    afterNext(proof, 'reauthenticateUser', disable);
    expectProblem(await judy.changeEmail(newAddress()), problems.invalidAccessToken);
    const sql = 'UPDATE users SET password_changed_at = now() WHERE id = $1';
    afterNext(proof, 'reauthenticateUser', () => app.database.query(sql, [ids[1]]));
    expectProblem(await kim.changeEmail(newAddress()), problems.wrongPassword);
    expect(await app.database.query('SELECT FROM mail_requests WHERE user_id = ANY ($1)', [ids])).toEqual([]);
  });

  it('refuses an address with a line break or a quoted name, before any mail is made of it', async () => {
    const ivan = await Owner.of(app);
    const broken = [
      'a@example.org\r\nBcc: b@example.org',
      'a@example.org\nSubject: x',
      '<a@example.org>, b@example.org',
    ];
    // A quoted name is another spelling of a mailbox.
    for (const email of [...broken, '"alice"@example.org']) expectInvalid(await ivan.changeEmail(email), '/new_email');
  });
});
