import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { Links, receive, receiveToken, useMailServer, workOff } from '../../support/mail-server.js';
import { NEW_PASSWORD } from '../../support/owner.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

const newAddress = (): string => `${randomUUID()}@example.org`;

describe('POST /api/v0/admin/users without a password', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });
  const links = new Links(app, server);

  it('sends the user a link, by which the user chooses the password and proves the address', async () => {
    const email = newAddress();
    const { body } = await app.admin.post('/users', { email }).expect(201);
    expect(body).toMatchObject({ email, is_active: true, email_verified: false });
    expect(body).not.toHaveProperty('invitation');
    expectProblem(await app.login(email), problems.invalidCredentials);
    const { subject, text, token } = await receive(app, server, email);
    expect(subject).toBe('Your account at localhost');
    expect(text).toContain(`https://app.example.org/reset?from=mail#token=${token}`);
    expect(text).toContain('within 7 days');
    await links.confirmReset(token!).expect(204);
    await app.login(email, NEW_PASSWORD).expect(200);
    const { id } = body as { id: string };
    expect((await app.admin.get(`/users/${id}`)).body).toMatchObject({ email_verified: true });
    expectProblem(await links.confirmReset(token!), problems.invalidLink);
    await workOff(app);
    expect(server.to(email)).toHaveLength(1);
    const created = await recorded(app, { event: 'admin.user.created', subject: id });
    expect(created).toMatchObject([{ details: { after: { invited: true } } }]);
  });

  it('sends nothing for a taken address, and refuses it', async () => {
    const alice = await app.user();
    expectProblem(await app.admin.post('/users', { email: alice.email }), problems.emailTaken);
    await workOff(app);
    expect(server.to(alice.email)).toEqual([]);
  });

  it('leaves the invited user a way when the link has expired: a reset by mail', async () => {
    const email = newAddress();
    await app.admin.post('/users', { email }).expect(201);
    const first = await receiveToken(app, server, email);
    await app.database.query("UPDATE one_time_tokens SET expires_at = now() - interval '1 second'");
    expectProblem(await links.confirmReset(first), problems.invalidLink);
    await links.confirmReset(await links.resetToken(email)).expect(204);
    await app.login(email, NEW_PASSWORD).expect(200);
  });
});

describe('POST /api/v0/admin/users in production without a mail server', () => {
  const app = useApp({
    variables: { ...UNLEASED, NODE_ENV: 'production', PASSWORD_RESET_URL: 'https://app.example.org/reset' },
  });

  it('returns the link once, for the operator to hand over, valid for 7 days', async () => {
    const email = newAddress();
    const { body } = await app.admin.post('/users', { email }).expect(201);
    const { invitation } = body as { invitation: { token: string; link: string; expires_at: string } };
    expect(invitation.link).toBe(`https://app.example.org/reset#token=${invitation.token}`);
    const days = (Date.parse(invitation.expires_at) - Date.now()) / 86_400_000;
    expect(Math.round(days)).toBe(7);
    const confirm = { token: invitation.token, new_password: NEW_PASSWORD };
    await app.post('/api/v0/auth/password-reset/confirm', confirm).expect(204);
    await app.login(email, NEW_PASSWORD).expect(200);
  });

  it('still takes a password, as long as ADMIN_SET_PASSWORDS does not refuse it', async () => {
    const body = { email: newAddress(), password: PASSWORD };
    const strict = await app.startReplica({ variables: { ADMIN_SET_PASSWORDS: 'refused' } });
    expectInvalid(await strict.admin.post('/users', body), '/password');
    expect((await app.admin.post('/users/search', { email: body.email }).expect(200)).body).toMatchObject({
      items: [],
    });
    await strict.admin.post('/users', { email: newAddress() }).expect(201);
    await strict.stop();
    expect((await app.admin.post('/users', body).expect(201)).body).not.toHaveProperty('invitation');
    await app.login(body.email).expect(200);
  });
});
