import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../../domain/audit/record.js';
import { atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { countWaiting, Links, receive, useMailServer, workOff } from '../../support/mail-server.js';
import { NEW_PASSWORD } from '../../support/owner.js';
import { PASSWORD } from '../../support/settings.js';
import { expectThrottled } from '../../support/throttled.js';
import { useApp } from '../../support/use-app.js';

const newAddress = (): string => `${randomUUID()}@example.org`;

describe('POST /api/v0/auth/register with REGISTRATION_ANSWER=uniform', () => {
  const { server, variables } = useMailServer({ REGISTRATION_ANSWER: 'uniform' });
  const app = useApp({ variables });
  const links = new Links(app, server);
  const register = (body: object) => app.post('/api/v0/auth/register', body);
  const usersNamed = (email: string) =>
    app.database.query<{ id: string }>('SELECT * FROM users WHERE email = $1', [email]);
  const createUser = async (): Promise<{ id: string; email: string }> => {
    const email = newAddress();
    const { body } = await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
    return body as { id: string; email: string };
  };

  it('answers byte for byte the same to an unknown address, a known one and one of a disabled account', async () => {
    const [known, disabled] = [await createUser(), await createUser()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    const answers = [];
    for (const email of [newAddress(), known.email, disabled.email])
      answers.push(await register({ email, password: PASSWORD }));
    const [first, ...others] = answers.map(({ status, text, headers }) => {
      const constant = Object.entries(headers).filter(
        ([name]) => !['x-request-id', 'date', 'ratelimit'].includes(name),
      );
      return { status, text, constant };
    });
    expect(first).toMatchObject({ status: 202, text: '' });
    expect(others).toEqual([first, first]);
  });

  it('makes the account of a new address without the password of the request, and mails a link to choose one', async () => {
    const email = newAddress();
    await register({ email, password: PASSWORD }).expect(202);
    const { token, subject } = await receive(app, server, email);
    expect(subject).toBe('Your account at localhost');
    expectProblem(await app.login(email, PASSWORD), problems.invalidCredentials);
    await links.confirmReset(token!).expect(204);
    await app.login(email, NEW_PASSWORD).expect(200);
    const [user] = await usersNamed(email);
    expect((await app.admin.get(`/users/${user!.id}`)).body).toMatchObject({ email_verified: true });
    const rows = await recorded(app, { event: 'user.registered', subject: user!.id });
    expect(rows).toMatchObject([{ actor: { door: 'user', id: user!.id }, details: { after: { invited: true } } }]);
  });

  it('mails the owner of a known address a notice without a link, and changes nothing', async () => {
    const { email } = await createUser();
    const before = await usersNamed(email);
    await register({ email: email.toUpperCase(), password: 'another fine passphrase' }).expect(202);
    const { token, subject } = await receive(app, server, email);
    expect([subject, token]).toEqual(['You already have an account', undefined]);
    expect(await usersNamed(email)).toEqual(before);
    await app.login(email, PASSWORD).expect(200);
    expect(await countWaiting(app)).toBe(0);
  });

  it('makes one account of many requests for an address, and no password is needed', async () => {
    const email = newAddress();
    await atOnce(5, () => register({ email }).expect(202));
    await receive(app, server, email);
    expect(await usersNamed(email)).toHaveLength(1);
    expect(server.tokensTo(email)).toHaveLength(1);
  });

  it('counts the mails to an address alike with and without an account', async () => {
    const strict = await app.startReplica({ settings: { mailLimitPerAccount: { points: 1, seconds: 900 } } });
    for (const email of [newAddress(), (await createUser()).email]) {
      await strict.post('/api/v0/auth/register', { email }).expect(202);
      expect(expectThrottled(await strict.post('/api/v0/auth/register', { email })).policy).toBe('mail-account');
    }
    await strict.stop();
    await workOff(app);
  });

  it('answers 400 to a password that the rules refuse, and 403 while registration is closed', async () => {
    const email = newAddress();
    expectInvalid(await register({ email, password: 'password' }), '/password');
    const closed = await app.startReplica({ variables: { REGISTRATION: 'closed' } });
    expectProblem(await closed.post('/api/v0/auth/register', { email }), problems.registrationClosed);
    await closed.stop();
    await workOff(app);
    expect(await usersNamed(email)).toEqual([]);
  });
});
