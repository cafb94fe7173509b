import { MailWorker } from '../../src/mail/mail-worker.js';
import { problems } from '../../src/problems/problems.js';
import { eventually } from '../../tools/eventually.js';
import { expectProblem } from '../support/expect-problem.js';
import { workOff } from '../support/mail-server.js';
import { useApp } from '../support/use-app.js';

describe('production without MAIL_URL', () => {
  const app = useApp({ variables: { NODE_ENV: 'production' } });

  it.each([
    '/api/v0/auth/password-reset',
    '/api/v0/auth/email-verification',
    '/api/v0/auth/email-verification/confirm',
    '/api/v0/users/me/email',
  ])('answers %s as an unknown route, to every method and with any credential', async (path) => {
    const { access_token } = await (await app.user()).logsIn();
    const calls = [
      app.post(path, {}),
      app.post(path, { email: 'a@example.org' }),
      app.patch(path, {}),
      app.delete(path),
    ];
    for (const call of calls)
      expectProblem(await call.set('Authorization', `Bearer ${access_token}`), problems.notFound);
    expect((await app.get('/docs-json').expect(200)).text).not.toContain(`"${path}"`);
  });

  it('lets an operator hand a token over, which sets the password', async () => {
    const alice = await app.user();
    const { body } = await app.admin.post(`/users/${alice.id}/password-reset`).expect(201);
    const new_password = 'another perfectly fine passphrase';
    const { token } = body as { token: string };
    await app.post('/api/v0/auth/password-reset/confirm', { token, new_password }).expect(204);
    await app.login(alice.email, new_password).expect(200);
  });
});

describe('development without MAIL_URL', () => {
  const app = useApp({ variables: { NODE_ENV: 'development' } });

  it('prints the mail, and its link can be used', async () => {
    const print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    try {
      const bob = await app.user();
      await app.post('/api/v0/auth/password-reset', { email: bob.email }).expect(202);
      await workOff(app);
      const printed = (): string => print.mock.calls.flat().join('\n');
      await eventually('it is printed', () => printed().includes(bob.email));
      const [, token] = /http:\/\/localhost:3000\/password-reset#token=(pa_reset_[\w-]{43})/.exec(printed())!;
      const body = { token, new_password: 'another perfectly fine passphrase' };
      await app.post('/api/v0/auth/password-reset/confirm', body).expect(204);
      await app.nest.get(MailWorker).sendDueMails();
      expect(JSON.stringify(app.log.lines)).not.toContain(token);
    } finally {
      print.mockRestore();
    }
  });
});
