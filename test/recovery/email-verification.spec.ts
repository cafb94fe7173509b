import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { receive, receiveToken, useMailServer, workOff } from '../support/mail-server.js';
import { PASSWORD } from '../support/settings.js';
import type { TestApp } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const request = (app: TestApp, email: string) => app.post('/api/v0/auth/email-verification', { email });
const confirm = (app: TestApp, token: string) => app.post('/api/v0/auth/email-verification/confirm', { token });
const newAddress = (): string => `${randomUUID()}@example.org`;

describe('the verification of an e-mail address', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });

  it('is not needed to log in, and sends no mail to a user who registers', async () => {
    const alice = await app.user();
    await alice.logsIn();
    await workOff(app);
    expect(server.to(alice.email)).toEqual([]);
  });

  it('proves the address once, by a link to the page for it', async () => {
    const bob = await app.user();
    await request(app, bob.email).expect(202);
    const { text, token } = await receive(app, server, bob.email);
    expect(text).toContain(`https://app.example.org/verify#token=${token}`);
    expect(token).toMatch(/^pa_email_[\w-]{43}$/);
    await confirm(app, token!).expect(204, '');
    expectProblem(await confirm(app, token!), problems.invalidLink);
    await request(app, bob.email).expect(202);
    await workOff(app);
    expect(server.to(bob.email)).toHaveLength(1);
  });

  it('takes no token of a password reset, nor the reverse', async () => {
    const carol = await app.user();
    await request(app, carol.email);
    const emailToken = await receiveToken(app, server, carol.email);
    const reset = { token: emailToken, new_password: 'another perfectly fine passphrase' };
    expectProblem(await app.post('/api/v0/auth/password-reset/confirm', reset), problems.invalidLink);
    const { body } = await app.admin.post(`/users/${carol.id}/password-reset`).expect(201);
    expectProblem(await confirm(app, (body as { token: string }).token), problems.invalidLink);
    await confirm(app, emailToken).expect(204);
  });

  it('accepts exactly one of 50 concurrent confirmations with one token', async () => {
    const dave = await app.user();
    await request(app, dave.email);
    const token = await receiveToken(app, server, dave.email);
    const answers = await Promise.all(Array.from({ length: 50 }, () => confirm(app, token)));
    expect(answers.filter(({ status }) => status === 204)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(49);
    expect(await recorded(app, { subject: dave.id, event: 'user.email.verified' })).toHaveLength(1);
  });
});

describe('REQUIRE_VERIFIED_EMAIL', () => {
  const { server, variables } = useMailServer();
  const app = useApp({
    variables: Object.defineProperties({ REQUIRE_VERIFIED_EMAIL: 'true' }, Object.getOwnPropertyDescriptors(variables)),
  });

  it('refuses the right password until the link of the registration is confirmed', async () => {
    const alice = await app.user();
    expectProblem(await app.login(alice.email), problems.emailNotVerified);
    expectProblem(await app.login(alice.email, 'not the passphrase'), problems.invalidCredentials);
    await confirm(app, await receiveToken(app, server, alice.email)).expect(204);
    await app.login(alice.email).expect(200);
  });

  it('also for a user whom an operator created, and counts the refused login', async () => {
    const email = newAddress();
    const { body } = await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
    expectProblem(await app.login(email), problems.emailNotVerified);
    const [failure] = await recorded(app, { subject: (body as { id: string }).id, event: 'user.login.failed' });
    expect(failure).toMatchObject({ details: { reasons: { email_not_verified: 1 } } });
    await confirm(app, await receiveToken(app, server, email)).expect(204);
    await app.login(email).expect(200);
  });

  it('is satisfied by a password reset by e-mail', async () => {
    const bob = await app.user();
    await receive(app, server, bob.email);
    await app.post('/api/v0/auth/password-reset', { email: bob.email }).expect(202);
    const token = await receiveToken(app, server, bob.email, 2);
    await app.post('/api/v0/auth/password-reset/confirm', { token, new_password: PASSWORD }).expect(204);
    await app.login(bob.email).expect(200);
  });

  it('registers no request for a registration that is refused', async () => {
    const carol = await app.user();
    await receive(app, server, carol.email);
    await app.post('/api/v0/auth/register', { email: carol.email, password: PASSWORD }).expect(409);
    expect(await app.database.query('SELECT * FROM mail_requests')).toEqual([]);
  });
});
