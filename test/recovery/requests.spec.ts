import { problems } from '../../src/problems/problems.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { expectProblem } from '../support/expect-problem.js';
import { countWaiting, MAIL_VARIABLES, useMailServer } from '../support/mail-server.js';
import { SHORT_WAITS, withPatientReplica } from '../support/outage.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase } from '../support/test-database.js';
import { expectThrottled } from '../support/throttled.js';
import { untilVerdict } from '../support/until-verdict.js';
import { useApp, useAppPerTest } from '../support/use-app.js';

/** A mail server that is away: a connection to port 1 is refused. */
const UNREACHABLE = { ...MAIL_VARIABLES, MAIL_URL: 'smtp://127.0.0.1:1' };
const ROUTES = ['/api/v0/auth/password-reset', '/api/v0/auth/email-verification'];

describe('a request for a link', () => {
  const { variables } = useMailServer();
  const app = useApp({ variables });

  it.each(ROUTES)('to %s gets the same answer for a known, an unknown and a disabled account', async (route) => {
    const [known, disabled] = [await app.user(), await app.user()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    const answers = [];
    for (const email of [known.email, 'unknown@example.org', disabled.email])
      answers.push(await app.post(route, { email }));
    const [first, ...others] = answers.map(({ status, text, headers }) => {
      const constant = Object.entries(headers).filter(
        ([name]) => !['x-request-id', 'date', 'ratelimit'].includes(name),
      );
      return { status, text, constant };
    });
    expect(first).toMatchObject({ status: 202, text: '' });
    expect(others).toEqual([first, first]);
  });

  it('writes one row for an address and a kind, however often it is repeated', async () => {
    const before = await countWaiting(app);
    await Promise.all(
      Array.from({ length: 50 }, () => app.post(ROUTES[0]!, { email: 'often@example.org' }).expect(202)),
    );
    expect((await countWaiting(app)) - before).toBeLessThanOrEqual(1);
  });

  it.each([
    {},
    { email: 'no address' },
    { email: 'a@example.org\r\nBcc: b@example.org' },
    { email: 'a@example.org', x: 1 },
  ])('with the body %j is 400', async (body) => {
    for (const route of ROUTES) expectProblem(await app.post(route, body), problems.validationFailed);
  });
});

describe('requests for links', () => {
  const app = useAppPerTest({
    variables: { ...UNREACHABLE, MAIL_LIMIT_PER_ADDRESS: '5/900' },
    settings: { mailLimitPerAccount: { points: 2, seconds: 900 }, linkLimitPerAddress: { points: 3, seconds: 900 } },
  });
  const [reset, verify] = ROUTES as [string, string];

  it.each([
    ['with an account', true],
    ['without an account', false],
  ])('are limited for an address %s, over both routes and any letter case', async (_what, isKnown) => {
    const email = isKnown ? (await app.user()).email : 'unknown@example.org';
    await app.post(reset, { email }).expect(202);
    await app.post(verify, { email: email.toUpperCase() }).expect(202);
    expect(expectThrottled(await app.post(reset, { email })).policy).toBe('mail-account');
  });

  it('are limited for a network, also when they are refused', async () => {
    for (let n = 0; n < 3; n += 1) await app.post(reset, { email: `user-${n}@example.org` }).expect(202);
    await app.post(reset, {}).expect(400);
    await app.post(reset, {}).expect(400);
    expect(expectThrottled(await app.post(reset, { email: 'user-9@example.org' })).policy).toBe('mail');
  });

  it('have a limit of their own for presented tokens', async () => {
    const paths = ['password-reset/confirm', 'email-verification/confirm', 'password-reset/confirm'];
    const body = (path: string) =>
      path.startsWith('p') ? { token: 'x', new_password: 'a perfectly fine passphrase' } : { token: 'x' };
    for (const path of paths) expectProblem(await app.post(`/api/v0/auth/${path}`, body(path)), problems.invalidLink);
    expect(expectThrottled(await app.post('/api/v0/auth/email-verification/confirm', { token: 'x' })).policy).toBe(
      'link',
    );
  });
});

describe('without the database', () => {
  it('every route of the links is 503, and works again afterwards', async () => {
    const database = await createTestDatabase();
    const proxy = await TcpProxy.before(database.url);
    const app = await TestApp.start({
      settings: SHORT_WAITS.settings,
      variables: { ...SHORT_WAITS.variables, ...UNREACHABLE },
      database: { ...database, url: proxy.url },
    });
    const { alice, access_token } = await withPatientReplica(app, async (patient) => {
      const alice = await patient.user();
      return { alice, ...(await alice.logsIn()) };
    });
    const bearer = { Authorization: `Bearer ${access_token}` };
    const calls = [
      () => app.post(ROUTES[0]!, { email: alice.email }),
      () => app.post(ROUTES[1]!, { email: alice.email }),
      () =>
        app.post('/api/v0/auth/password-reset/confirm', { token: 'x', new_password: 'a perfectly fine passphrase' }),
      () => app.post('/api/v0/auth/email-verification/confirm', { token: 'x' }),
      () => app.post('/api/v0/users/me/email', { password: alice.password, new_email: 'new@example.org' }).set(bearer),
      () => app.admin.post(`/users/${alice.id}/password-reset`),
    ];
    await proxy.close();
    for (const answer of await Promise.all(calls.map((call) => call()))) expectProblem(answer, problems.unavailable);
    await proxy.open();
    const statuses = (await Promise.all(calls.map((call) => untilVerdict(call)))).map(({ status }) => status);
    expect(statuses).toEqual([202, 202, 400, 400, 202, 201]);
    await app.stop();
    await proxy.close();
    await database.drop();
  });
});
