import { randomUUID } from 'node:crypto';
import { problems } from '../../src/foundation/problems/problems.js';
import { Cli, useCli } from '../support/cli.js';
import { eventually } from '../../tools/eventually.js';
import { expectProblem } from '../support/expect-problem.js';
import { expectThrottled } from '../support/throttled.js';
import { serve } from '../support/serve.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { FactorOwner } from '../domain/second-factors/owner.js';
import { ES256 } from '../domain/signing-keys/support.js';

describe('platform-auth users and audit', () => {
  const app = useApp({ variables: { ...UNLEASED, LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '3/900' } });
  const cli = useCli(app);

  it('disables a user by e-mail address and enables it by id', async () => {
    const alice = await app.user();
    const { access_token } = await alice.logsIn();
    expect(await cli.ok(`users disable ${alice.email}`)).toBe(`${alice.email} is disabled.\n`);
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expectProblem(await app.login(alice.email), problems.invalidCredentials);
    expect(await cli.json(`users enable ${alice.id}`)).toMatchObject({ id: alice.id, is_active: true });
    await alice.logsIn();
  });

  it('sets and verifies the address of a user, whose sessions end', async () => {
    const alice = await app.user();
    const { access_token } = await alice.logsIn();
    const email = `${randomUUID()}@example.net`;
    const done = `${alice.email} has the address ${email} now, which is not verified. Every session has ended.\n`;
    expect(await cli.ok(`users set-email ${alice.email} ${email}`)).toBe(done);
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expect(await cli.ok(`users show ${email}`)).toMatch(/^email_verified +false$/m);
    expect(await cli.ok(`users verify ${email}`)).toBe(`${email} is verified.\n`);
    expect(await cli.json(`users set-email ${email} ${alice.email} --verified`)).toMatchObject({
      email_verified: true,
    });
    await alice.logsIn();
  });

  it('unlocks a user whose logins are refused after too many wrong passwords', async () => {
    const bob = await app.user();
    for (let wrong = 0; wrong < 3; wrong += 1) await app.login(bob.email, 'not the password');
    expectThrottled(await app.login(bob.email));
    expect(await cli.json(`users unlock ${bob.email}`)).toEqual({ id: bob.id, unlocked: true });
    await app.login(bob.email).expect(200);
  });

  it('lists users and sessions, and revokes the sessions', async () => {
    const bob = await app.user();
    const { refresh_token } = await bob.logsIn();
    expect(await cli.ok('users list')).toContain(bob.email);
    expect((await cli.json<{ items: object[] }>(`users sessions ${bob.email}`)).items).toHaveLength(1);
    await cli.ok(`users revoke-sessions ${bob.email}`);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    expect(await cli.ok(`users sessions ${bob.id}`)).toContain('admin');
  });

  it('removes the second factors of a user, who then logs in with the password alone', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { email } = owner.user;
    const refusal = `This lets ${email} log in with the password alone. Add --yes to confirm. It was not done.\n`;
    expect(await cli.fails(`users remove-factors ${email}`)).toBe(refusal);
    await owner.isChallenged();
    const done = `Removed from ${email}: totp, recovery_code. Every session has ended.\n`;
    expect(await cli.ok(`users remove-factors ${email} --yes`)).toBe(done);
    const { refresh_token } = await owner.user.logsIn();
    const nothing = `${email} has no second factor. Nothing was changed.\n`;
    expect(await cli.ok(`users remove-factors ${email}`)).toBe(nothing);
    await app.refresh(refresh_token).expect(200);
  });

  it('shows the second factors of a user and since when the address is verified; explains that a login asks for a factor, and a throttle', async () => {
    const { user } = await FactorOwner.withTotp(app);
    const at = '2026-11-21T09:00:00.000Z';
    await app.database.query('UPDATE users SET email_verified_at = $1 WHERE id = $2', [at, user.id]);
    const shown = await cli.ok(`users show ${user.email}`);
    expect(shown).toMatch(/^email_verified_at +2026-11-21T09:00:00\.000Z$/m);
    expect(shown).toMatch(/^second_factors +totp, recovery_code$/m);
    expect(await cli.json(`users show ${user.id}`)).toMatchObject({ second_factors: ['totp', 'recovery_code'] });
    const plain = await app.user();
    expect(await cli.ok(`users show ${plain.id}`)).toMatch(/^email_verified_at +-\nsecond_factors +-$/m);
    expect(await cli.ok(`explain user ${user.email}`)).toContain(
      `${user.email} may log in now, with the right password and a second factor: totp, recovery_code.\n`,
    );
    for (let wrong = 0; wrong < 3; wrong += 1) await app.login(user.email, 'not the password');
    expectThrottled(await app.login(user.email));
    const said = await cli.ok(`explain user ${user.email}`);
    expect(said).toMatch(
      /would be refused now:\n {2}throttled until 20\S+Z at \S+\n {4}Too many wrong passwords for this/,
    );
    expect(said).toContain('A login asks for the password and a second factor: totp, recovery_code.\n');
    const elsewhere = await cli.json(`explain user ${user.email} --address 192.0.2.7`);
    expect(elsewhere).toMatchObject({ accepted_now: true, reasons: [], failed_logins: 3 });
  });

  it('registers a user with the password of standard input, who can log in', async () => {
    const [email, password] = [`${randomUUID()}@example.org`, 'correct horse battery staple'];
    const created = await cli.withInput(`${password}\n`).json<{ id: string }>(`users register ${email} --password`);
    expect(created).toMatchObject({ email, is_active: true });
    await app.login(email, password).expect(200);
    expect(await cli.json(`users show ${email}`)).toMatchObject({ id: created.id, email });
  });

  it('invites a user, whose password no operator knows', async () => {
    const email = `${randomUUID()}@example.org`;
    const said = await cli.ok(`users register ${email}`);
    expect(said).toMatch(/ is registered\. Its id is \S+\. A mail invites the user\.\n$/);
  });

  it('refuses to register a user with a bad password, and says why', async () => {
    const said = await cli.withInput('short\n').fails('users register carol@example.org --password');
    expect(said).toMatch(/^The request is not valid \(validation_failed, 400\)\.\n {2}password must/);
    expect(said).not.toContain('short\n');
    expect(await cli.ok('users list --email carol@example.org')).toBe('none\n');
  });

  it('deletes a user only with --yes when it cannot ask', async () => {
    const dave = await app.user();
    const said = await cli.withInput('y\n').fails(`users delete ${dave.email}`);
    expect(said).toBe(
      `This deletes the user ${dave.email} and all of their sessions permanently. Add --yes to confirm. It was not done.\n`,
    );
    await dave.logsIn();
    expect(await cli.ok(`users delete ${dave.email} --yes`)).toBe(`${dave.email} is deleted.\n`);
    expectProblem(await app.login(dave.email), problems.invalidCredentials);
  });

  it('issues a token for the operator to hand over, which resets the password', async () => {
    const ruth = await app.user();
    const said = await cli.ok(`users reset-password ${ruth.email}`);
    const [, token] =
      /^(pa_reset_[\w-]{43})\n\nThis token is shown once and sets the password of .*@example\.org once, until 20/.exec(
        said,
      )!;
    const new_password = 'another perfectly fine passphrase';
    await app.post('/api/v0/auth/password-reset/confirm', { token, new_password }).expect(204);
    await app.login(ruth.email, new_password).expect(200);
    expect(await cli.json(`users reset-password ${ruth.id}`)).toEqual({
      token: expect.stringMatching(/^pa_reset_/),
      expires_at: expect.stringMatching(/^20/),
    });
    expect(await cli.fails('users reset-password unknown@example.org')).toMatch(/^No account has the e-mail address/);
  });

  it('explains why a user is refused: unknown, or disabled since when and by which request', async () => {
    const erin = await app.user();
    await erin.logsIn();
    expect(await cli.ok(`explain user ${erin.email}`)).toMatch(
      /may log in now[^]*Last login at 20[^]*Live sessions: 1\./,
    );
    await app.login(erin.email, 'not the password').expect(401);
    await cli.ok(`users disable ${erin.id}`);
    const explanation = await cli.json(`explain user ${erin.id}`);
    expect(explanation).toMatchObject({
      accepted_now: false,
      reasons: [
        { code: 'disabled', since: expect.stringMatching(/^20/), request_id: expect.stringMatching(/^[\w-]{36}$/) },
      ],
      live_sessions: 0,
      failed_logins: 1,
    });
    expect(await cli.ok('explain user unknown@example.org')).toMatch(/refused now:\n {2}unknown\n/);
  });

  it('audit shows names instead of ids in the table, and takes an e-mail address', async () => {
    const [frank, node, service] = [await app.user(), await app.node(), await app.service()];
    await frank.logsIn();
    const table = await cli.ok('audit');
    expect(table).toContain(`│ user ${frank.email} `);
    expect(table).toContain(`${service.caller} → ${service.target}`);
    expect(table).not.toContain(node.nodeId);
    const { items } = await cli.json<{ items: { subject: string }[] }>(`audit --subject ${frank.email}`);
    expect(items.length).toBeGreaterThan(0);
    expect(new Set(items.map(({ subject }) => subject))).toEqual(new Set([frank.id]));
  });

  it('audit lists the events when the name of one is unknown', async () => {
    expect((await cli.run('audit --event user.log.*')).code).toBe(2);
    const { code, stderr } = await cli.run('audit --event user.login');
    expect(code).toBe(2);
    expect(stderr).toMatch(/must be one of: user\.registered, .*admin\.user\.sessions_revoked/);
  });

  it('audit --follow prints each event once, the new ones as they happen', async () => {
    app.clock.enterNextWindow();
    const grace = await app.user();
    await app.login(grace.email, 'not the password').expect(401);
    const following = cli.start(`audit --subject ${grace.email} --follow`);
    const lines = (): string[] => following.shown().split('\n').slice(0, -1);
    await eventually('the events so far', () => lines().length === 2);
    await app.login(grace.email, 'not the password').expect(401);
    await grace.logsIn();
    await eventually('the new count, and the new event', () => lines().length === 4);
    following.kill();
    await following.ended;
    const [first, second, ...later] = lines().map((line) => line.split('  ')[1]);
    expect([first, second, ...later.sort()]).toEqual([
      ...['user.registered', 'user.login.failed', 'user.login.failed', 'user.login.succeeded'],
    ]);
    expect(following.shown()).toMatch(/user\.login\.failed .* 2 times +last_at .*wrong_password/);
  });

  it.each(['--follow', '--follow --since 1m'])(
    'audit %s prints the first match also when the clock of the operator is ahead',
    async (options) => {
      const hourAgo = Date.now() - 3_600_000;
      const event = (number: number, name: string) => ({
        id: String(number),
        time: new Date(hourAgo + number).toISOString(),
        event: name,
        actor: { door: 'admin', id: null, name: null },
        subject: null,
        request_id: null,
        address: null,
        count: 1,
        details: {},
      });
      const log = [event(0, 'admin.node.revoked')];
      const asked: URLSearchParams[] = [];
      const { url, close } = await serve((request, response) => {
        const { searchParams } = new URL(request.url!, 'http://x');
        const [name, since] = [searchParams.get('event'), Date.parse(searchParams.get('since') ?? '2000-01-01')];
        if (name !== null) asked.push(searchParams);
        const found = log.filter((each) => (name ?? each.event) === each.event && Date.parse(each.time) >= since);
        const items = found.reverse().slice(0, Number(searchParams.get('limit')));
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ items, next_cursor: null }));
      });
      const following = new Cli(url).start(`audit --event user.registered ${options}`);
      await eventually('a poll without a match', () => asked.length > 0);
      log.push(event(1, 'user.registered'));
      await eventually('the first match is printed', () => following.shown() !== '');
      await eventually('a poll after it', () => asked.length > 2);
      following.kill();
      await following.ended;
      close();
      expect(following.shown().trimEnd().split('\n')).toHaveLength(1);
      for (const query of asked.slice(1))
        expect(Date.parse(query.get('since')!)).toBeGreaterThanOrEqual(hourAgo - 16 * 60_000);
    },
  );

  it('audit sends every filter, follows the pages up to the limit, and prints no control characters', async () => {
    const asked: URLSearchParams[] = [];
    const event = (id: number) => ({
      id: String(id),
      time: '2026-11-21T09:00:00.000Z',
      event: 'user.login.failed',
      actor: { door: 'user', id: `id-${id}` },
      subject: 'evil\u001b[2J',
      request_id: null,
      address: '127.0.0.1',
      count: 1,
      details: {},
    });
    const { url, close } = await serve((request, response) => {
      const { searchParams } = new URL(request.url!, 'http://x');
      asked.push(searchParams);
      const items = Array.from({ length: Number(searchParams.get('limit')) }, (_, index) => event(index));
      const next_cursor = `after-${asked.length * 100}`;
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ items, next_cursor }));
    });
    const asking = new Cli(url);
    const filters = '--actor a --subject s --event user.login.failed --since 24h --until 1h --limit 130'.split(' ');
    const { items } = await asking.json<{ items: object[] }>('audit', ...filters);
    expect(items).toHaveLength(130);
    expect(asked.map((query) => [query.get('limit'), query.get('cursor')])).toEqual([
      ['100', null],
      ['30', 'after-100'],
    ]);
    const { since, until, ...exact } = Object.fromEntries(asked[0]!);
    expect(exact).toEqual({ actor: 'a', subject: 's', event: 'user.login.failed', limit: '100' });
    expect(Date.parse(until!) - Date.parse(since!)).toBeGreaterThanOrEqual(22.9 * 3_600_000);
    const text = await asking.ok('audit --limit 1');
    expect(text).toContain('user id-0');
    expect(text).not.toContain('\u001b');
    close();
  });
});

describe.each([
  ['ES256', ES256, []],
  ['HS256', {}, ['hs256']],
])('platform-auth explain user --via, under %s', (_, variables, always) => {
  const app = useApp({ variables: { ...UNLEASED, ...variables } });
  const cli = useCli(app);

  it('says why a service would get no token to act for the user, and at which targets it may', async () => {
    const via = `s-${randomUUID()}`;
    const alice = await app.user();
    const explain = async (user = alice.email): Promise<{ accepted_now: boolean; codes: string[] }> => {
      const path = `explain user ${user} --via ${via}`;
      const { accepted_now, reasons } = await cli.json<{ accepted_now: boolean; reasons: { code: string }[] }>(path);
      return { accepted_now, codes: reasons.map(({ code }) => code) };
    };
    const refused = (...codes: string[]) => ({ accepted_now: false, codes });
    expect(await explain()).toEqual(refused('no_session', ...always, 'no_credential', 'no_pair_for_users'));
    await alice.logsIn();
    await app.service(via, 'auth');
    const { appId } = await app.service(via, 'ocr', ['pages:read']);
    expect(await explain()).toEqual(refused(...always, 'no_pair_for_users'));
    await app.admin.patch(`/app-credentials/${appId}`, { for_users: true }).expect(200);
    expect(await explain()).toEqual({ accepted_now: always.length === 0, codes: always });
    const said = await cli.ok(`explain user ${alice.email} --via ${via}`);
    expect(said).toContain(always.length === 0 ? `${via} may act for ${alice.email} now.\n` : ' would get no token ');
    expect(said).toContain('At ocr, with the scopes pages:read. No token was issued yet.\n');
    expect(await explain(randomUUID())).toEqual(refused('unknown', ...always));
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    expect(await explain()).toEqual(refused('disabled', ...always));
  });

  it('follows a chain of services, and names the link that is missing', async () => {
    const [web, ocr, files] = ['web', 'ocr', 'files'].map((name) => `${name}-${randomUUID()}`) as [
      string,
      string,
      string,
    ];
    const alice = await app.user();
    await alice.logsIn();
    for (const service of [web, ocr]) await app.service(service, 'auth');
    const link = (caller: string, target: string) =>
      app.admin.post('/app-credentials', { caller, target, scopes: ['pages:read'], for_users: true }).expect(201);
    await link(web, files);
    await link(ocr, files);
    const explain = async (...via: string[]) =>
      cli.json<{ reasons: { code: string; detail: string }[]; targets: { target: string }[] }>(
        `explain user ${alice.email} --via ${via.join(',')}`,
      );
    const { reasons, targets } = await explain(web, ocr);
    const details = reasons.slice(always.length).map(({ detail }) => detail);
    expect(details).toEqual([expect.stringContaining(`No live credential of ${web} for ${ocr} is for users.`)]);
    expect(targets).toMatchObject([{ target: files }]);
    await link(web, ocr);
    expect((await explain(web, ocr)).reasons.map(({ code }) => code)).toEqual(always);
    const long = await explain(web, ocr, web, ocr, web);
    expect(long.reasons.map(({ code }) => code)).toContain('chain_too_long');
    const said = await cli.ok(`explain user ${alice.email} --via ${web},${ocr}`);
    expect(said).toContain(
      `${web} → ${ocr} ${always.length === 0 ? 'may act for' : 'would get no token for'} ${alice.email} now`,
    );
  });
});
