import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { atOnce } from '../../support/at-once.js';
import { expectProblem } from '../../support/expect-problem.js';
import { Links, countWaiting, MAIL_VARIABLES, useMailServer, workOff } from '../../support/mail-server.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { expectThrottled } from '../../support/throttled.js';
import { untilVerdict } from '../../support/until-verdict.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';
import { MailWorker } from '../../../src/domain/mail/mail-worker.js';
import { eventually } from '../../../tools/eventually.js';
import { FactorOwner, logInAlone } from '../../domain/second-factors/owner.js';
import { NEW_PASSWORD } from '../../support/owner.js';

/** A mail server that is away: a connection to port 1 is refused. */
const UNREACHABLE = { ...MAIL_VARIABLES, MAIL_URL: 'smtp://127.0.0.1:1' };

const ROUTES = ['/api/v0/auth/password-reset', '/api/v0/auth/email-verification'];

const { server, variables } = useMailServer();
const app = useApp({ variables });

describe('a request for a link', () => {
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
    await atOnce(20, () => app.post(ROUTES[0]!, { email: 'often@example.org' }).expect(202));
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
  const app = useApp({
    variables: { ...UNLEASED, ...UNREACHABLE, TRUST_PROXY: 'true' },
    settings: {
      mailLimitPerAddress: { points: 5, seconds: 900 },
      mailLimitPerAccount: { points: 2, seconds: 900 },
      linkLimitPerAddress: { points: 3, seconds: 900 },
    },
  });
  const [reset, verify] = ROUTES as [string, string];
  /** Each test has a network of its own. */
  let address = '';
  let tests = 0;
  const post = (path: string, body: object) => app.post(path, body).set('X-Forwarded-For', address);

  beforeEach(() => {
    address = `192.0.2.${(tests += 1)}`;
  });

  it.each([
    ['with an account', true],
    ['without an account', false],
  ])('are limited for an address %s, over both routes and any letter case', async (_what, isKnown) => {
    const email = isKnown ? (await app.user()).email : 'unknown@example.org';
    await post(reset, { email }).expect(202);
    await post(verify, { email: email.toUpperCase() }).expect(202);
    expect(expectThrottled(await post(reset, { email })).policy).toBe('mail-account');
  });

  it('are limited for a network, also when they are refused', async () => {
    for (let n = 0; n < 3; n += 1) await post(reset, { email: `user-${n}@example.org` }).expect(202);
    await post(reset, {}).expect(400);
    await post(reset, {}).expect(400);
    expect(expectThrottled(await post(reset, { email: 'user-9@example.org' })).policy).toBe('mail');
  });

  it('have a limit of their own for presented tokens', async () => {
    const paths = ['password-reset/confirm', 'email-verification/confirm', 'password-reset/confirm'];
    const body = (path: string) =>
      path.startsWith('p') ? { token: 'x', new_password: 'a perfectly fine passphrase' } : { token: 'x' };
    for (const path of paths) expectProblem(await post(`/api/v0/auth/${path}`, body(path)), problems.invalidLink);
    expect(expectThrottled(await post(`${verify}/confirm`, { token: 'x' })).policy).toBe('link');
  });
});

describe('without the database', () => {
  const { settings, variables } = SHORT_WAITS;
  const app = useApp({ isBehindProxy: true, settings, variables: { ...variables, ...UNREACHABLE } });

  it('every route of the links is 503, and works again afterwards', async () => {
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
    await app.proxy.close();
    for (const answer of await Promise.all(calls.map((call) => call()))) expectProblem(answer, problems.unavailable);
    await app.proxy.open();
    const statuses = (await Promise.all(calls.map((call) => untilVerdict(call)))).map(({ status }) => status);
    expect(statuses).toEqual([202, 202, 400, 400, 202, 201]);
  });
});

describe('production without MAIL_URL', () => {
  const app = useApp({ variables: { ...UNLEASED, NODE_ENV: 'production' } });

  it('answers the routes of links as unknown ones, to every method and with any credential', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const { text: document } = await app.get('/docs-json').expect(200);
    for (const path of [...ROUTES, `${ROUTES[1]}/confirm`, '/api/v0/users/me/email']) {
      const email = app.post(path, { email: 'a@example.org' });
      for (const call of [app.post(path, {}), email, app.patch(path, {}), app.delete(path)])
        expectProblem(await call.set('Authorization', `Bearer ${access_token}`), problems.notFound);
      expect(document).not.toContain(`"${path}"`);
    }
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
  const app = useApp({ variables: { ...UNLEASED, NODE_ENV: 'development' } });

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

const newAddress = (): string => `${randomUUID()}@example.org`;

describe('second factors of an account whose address was never proven', () => {
  const links = new Links(app, server);
  const requestChange = async (owner: FactorOwner, email: string): Promise<string> => {
    const proof = await owner.proof();
    return links.tokenOf(owner.post('/email', { ...proof, new_email: email }), email);
  };
  const confirm = (token: string) => links.confirmEmail(token).expect(204);

  it('void a change of the address that was requested before they were added, and stay when the password is reset', async () => {
    const owner = await FactorOwner.of(app);
    const thiefs = newAddress();
    const token = await requestChange(owner, thiefs);
    const reset = await links.resetToken(owner.user.email);
    await owner.registers();
    expectProblem(await links.confirmEmail(token), problems.invalidLink);
    await links.confirmReset(reset).expect(204);
    expectProblem(await app.login(thiefs, NEW_PASSWORD), problems.invalidCredentials);
    expectProblem(await app.login(owner.user.email, NEW_PASSWORD), problems.secondFactorRequired);
  });

  it.each<[string, (owner: FactorOwner) => Promise<unknown>]>([
    ['an authenticator app', (owner) => owner.enrols()],
    ['a passkey', (owner) => owner.registers()],
  ])('void, when %s is the first one, a change of the address whose mail still waits', async (_what, add) => {
    const owner = await FactorOwner.of(app);
    const email = newAddress();
    server.refuse('rcpt', 451);
    await owner.post('/email', { ...(await owner.proof()), new_email: email }).expect(202);
    await workOff(app);
    const kinds = () =>
      app.database.query(
        `SELECT purpose AS kind FROM one_time_tokens WHERE user_id = $1
         UNION ALL SELECT kind FROM mail_requests WHERE user_id = $1 ORDER BY kind`,
        [owner.user.id],
      );
    const [token, request, notice] = [
      { kind: 'email_change' },
      { kind: 'email_change' },
      { kind: 'email_change_notice' },
    ];
    expect(await kinds()).toEqual([token, request, notice]);
    await add(owner);
    expect(await kinds()).toEqual([notice, { kind: 'factor_added' }]);
    server.accept();
    await workOff(app);
    expect(server.to(email)).toEqual([]);
    // With the factor, the change can be requested again.
    await confirm(await requestChange(owner, email));
  });

  it('do not keep the new address from counting as verified', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    await confirm(await requestChange(owner, newAddress()));
    const strict = await app.startReplica({ variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
    expect((await logInAlone(strict, authenticator)).status).toBe(200);
    await strict.stop();
  });
});
