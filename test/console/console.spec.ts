import type { OpenAPIObject } from '@nestjs/swagger';
import { ADMIN_KEY, UNLEASED } from '../support/settings.js';
import { CountedRefusals } from '../../src/domain/audit/counted-refusals.js';
import { ConsoleSessions } from '../../src/console/console-sessions.js';
import type { OperatorScope } from '../../src/foundation/common/names.js';
import { recorded } from '../domain/audit/record.js';
import { Browser, HOST } from '../support/console-browser.js';
import { TestApp } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import type { Response } from 'supertest';

const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';

describe('/console', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' } });

  const countNodes = async (): Promise<number> =>
    ((await app.admin.get('/nodes').expect(200)).body.items as unknown[]).length;

  it('leads to the login, and back to the page that was asked for', async () => {
    const browser = new Browser(app);
    const { headers } = await browser.get('/console/app-credentials?live=true').expect(303);
    expect(headers.location).toBe('/console/login?next=%2Fconsole%2Fapp-credentials%3Flive%3Dtrue');
    const answer = await browser.sendKey(ADMIN_KEY, { next: '/console/app-credentials?live=true' }).expect(303);
    expect(answer.headers.location).toBe('/console/app-credentials?live=true');
    expect(answer.headers['set-cookie']).toEqual([
      expect.stringMatching(/^console=[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict$/),
    ]);
    await browser.get('/console/app-credentials?live=true').expect(200);
  });

  it('leads back to the filter to which the dashboard links', async () => {
    const next = '/console/audit-events?event=user.*';
    const { headers } = await new Browser(app).sendKey(ADMIN_KEY, { next }).expect(303);
    expect(headers.location).toBe(next);
  });

  it('leads from /console/ to its first page, also through the login', async () => {
    const browser = new Browser(app);
    const { headers } = await browser.get('/console/').expect(303);
    const next = new URL(headers.location!, `http://${HOST}`).searchParams.get('next')!;
    const { headers: loggedIn } = await browser.sendKey(ADMIN_KEY, { next }).expect(303);
    expect((await browser.get(loggedIn.location!).expect(303)).headers.location).toBe('/console');
  });

  it('goes to its first page after a login that names a place outside it', async () => {
    const places = [
      '//evil.example',
      'https://evil.example',
      '/console/login',
      '/consolex',
      '/console/\\evil',
      '/api/v0/admin',
      '/console/../api/v0/users/me',
      '/console/keys/../../docs',
      '/console/%2e%2e/docs',
      '/console/.%2E/docs?a=b',
      '/console/./login',
      '/x/../console/login',
    ];
    for (const next of places) {
      const { headers } = await new Browser(app).sendKey(ADMIN_KEY, { next }).expect(303);
      expect({ next, location: headers.location }).toEqual({ next, location: '/console' });
    }
  });

  it('refuses a wrong key like the admin door, and counts it', async () => {
    const key = 'wrong-console-key-0123456789abcdefghijklmnop';
    const { text } = await new Browser(app).send('/console/login', { key, next: '/console/nodes' }).expect(401);
    expect(text).toMatch(/name="next" value="\/console\/nodes"[^]*name="key"[^]*Key is not valid\. Check/);
    expect(text).not.toContain(key);
    expect(await recorded(app, { event: 'admin.key.refused' })).toHaveLength(1);
    expect(JSON.stringify(app.log.lines)).not.toContain(key);
  });

  it('refuses a key in the address bar, and does not log it', async () => {
    await app.get('/console/login?key=secret-in-the-address').set({ Host: HOST }).expect(400);
    expect(JSON.stringify(app.log.lines)).not.toContain('secret-in-the-address');
  });

  it('refuses two cookies of its name, of which another program on the same host may have set one', async () => {
    const browser = await Browser.logIn(app);
    const planted = (await Browser.logIn(app)).cookie;
    for (const cookie of [
      `${planted}; ${browser.cookie}`,
      `${browser.cookie}; ${planted}`,
      `${browser.cookie};console=`,
    ])
      for (const path of ['/console', '/console/login']) {
        const { text } = await app.get(path).set({ Host: HOST, Cookie: cookie }).expect(400);
        expect(text).toContain('Two sessions in one request');
      }
  });

  it('is throttled for one valid key, whose other logins stay as they are', async () => {
    const { key } = await app.operator(['read']);
    const browser = await Browser.logIn(app, key);
    for (let login = 1; login < 60; login++) await browser.sendKey(key).expect(303);
    const { headers } = await new Browser(app).send('/console/login', { key }).expect(429);
    expect(headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(app.log.events('admin.key.throttled')).toMatchObject([{ reason: 'console-login' }]);
    await browser.get('/console').expect(200);
    await Browser.logIn(app, (await app.operator(['read'])).key);
  });

  it('sets no cookie without TLS, except on loopback, which has a name for each program', async () => {
    for (const Host of ['localhost:7701', 'auth.localhost:7701', '[::1]:7701'])
      await app.get('/console/login').set({ Host }).expect(200);
    for (const Host of ['auth.localhost.example.org', 'xlocalhost', 'localhost.example'])
      await app.get('/console/login').set({ Host }).expect(403);
    const { text } = await app.get('/console/login').set({ Host: 'auth.example.org' }).expect(403);
    expect(text).toContain('The console needs TLS');
  });

  describe('a form', () => {
    const fields = { household_id: HOUSEHOLD, room: 'attic', name: 'sensor' };
    let browser: Browser;
    beforeAll(async () => {
      browser = await Browser.logIn(app);
    });

    const makeForm = async () => ({ ...(await browser.readForm('/console/nodes/new', '/console/nodes')), ...fields });

    it.each([
      ['another origin', { Origin: 'https://evil.example' }],
      ['another port of this host', { Origin: 'http://127.0.0.1:7702' }],
      ['no known origin', { Origin: 'null' }],
      ['another site, as the browser says', { 'Sec-Fetch-Site': 'cross-site' }],
      ['the same site, another origin', { 'Sec-Fetch-Site': 'same-site' }],
    ])('from %s changes nothing', async (_what, headers) => {
      const before = await countNodes();
      await browser.send('/console/nodes', await makeForm(), headers).expect(403);
      expect(await countNodes()).toBe(before);
    });

    it('of another page is a security event, counted for the operator, and before the login for the network', async () => {
      const operator = await app.operator(['nodes']);
      const session = await Browser.logIn(app, operator.key);
      const evil = { Origin: 'https://evil.example' };
      await session.send('/console/nodes', { ...fields, form: '' }, evil).expect(403);
      await session.send('/console/nodes', { ...fields, form: '' }).expect(403);
      await app.post('/console/login').type('form').set(evil).send('key=x').expect(403);
      const [ofOperator] = await recorded(app, { event: 'admin.console.refused', subject: operator.id });
      const reasons = { origin: 1, form: 1 };
      expect(ofOperator).toMatchObject({ actor: { door: 'open' }, count: 2, details: { reasons } });
      const subjects = (await recorded(app, { event: 'admin.console.refused' })).map(({ subject }) => subject);
      expect(subjects.filter((subject) => subject?.startsWith('unknown:'))).toHaveLength(1);
      expect(app.log.events('admin.console.refused').at(-3)).toMatchObject({
        reason: 'origin',
        operator: operator.name,
      });
    });

    it('without a proof, with that of another action, or of another session, changes nothing', async () => {
      const before = await countNodes();
      const other = await Browser.logIn(app);
      const proofs = ['', (await browser.readForm('/console/app-credentials/new', '/console/app-credentials')).form!];
      proofs.push((await other.readForm('/console/nodes/new', '/console/nodes')).form!);
      for (const form of proofs) await browser.send('/console/nodes', { ...fields, form }).expect(403);
      expect(await countNodes()).toBe(before);
    });

    it('is done once', async () => {
      const before = await countNodes();
      const form = await makeForm();
      const answers = await Promise.all([1, 2, 3].map(() => browser.send('/console/nodes', form)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
      expect(await countNodes()).toBe(before + 1);
    });

    it('that was refused may be corrected and sent again', async () => {
      const form = await makeForm();
      const { text } = await browser.send('/console/nodes', { ...form, room: '' }).expect(400);
      expect(text).toContain('room');
      await browser.send('/console/nodes', form).expect(200);
    });

    it('with a list of fields that would be costly is refused', async () => {
      const fields = (length: number) => Object.fromEntries(Array.from({ length }, (_, index) => [`f${index}`, 'x']));
      await browser.send('/console/nodes', fields(200)).expect(400);
      await new Browser(app).send('/console/login', fields(2_000)).expect(400);
      await browser.send('/console/nodes', { ...(await makeForm()), room: 'x'.repeat(10_000) }).expect(400);
      for (const path of ['/console/nodes', `/console/nodes/${HOUSEHOLD}/revoke`])
        await browser.app.post(path, {}).set({ Host: HOST, Cookie: browser.cookie }).expect(415);
    });

    it('of Explain takes no key into an address', async () => {
      const secret = `pa_admin_${'x'.repeat(43)}`;
      for (const field of ['about', 'address', 'service']) {
        const { status, text } = await browser.submit('/console/explain', { about: HOUSEHOLD, [field]: secret });
        expect({ status, isShown: text.includes(secret) }).toEqual({ status: 400, isShown: false });
      }
      await browser.get('/console/explain?about=a&about=b').expect(400);
    });

    it('shows names as text', async () => {
      const name = `</script><img src=x onerror=alert(1)>`;
      await browser.send('/console/nodes', { ...(await makeForm()), room: name }).expect(200);
      const { text } = await browser.get('/console/nodes').expect(200);
      expect(text).toContain('&lt;/script>');
      expect(text).not.toContain('<img');
    });
  });

  describe('a session', () => {
    const replica = useReplica(app);
    const inAMillisecond = () => new Date(app.clock.now().getTime() + 1).toISOString();

    it.each([
      ['is revoked', (id: string) => app.admin.delete(`/operators/${id}`)],
      ['is rotated', (id: string) => app.admin.post(`/operators/${id}/rotate`, { overlap_hours: 24 })],
      ['expires', (id: string) => app.admin.patch(`/operators/${id}`, { expires_at: inAMillisecond() })],
    ])('ends on every replica when its key %s', async (_when, end) => {
      const operator = await app.operator();
      const [browser, elsewhere] = [await Browser.logIn(app, operator.key), new Browser(replica)];
      elsewhere.cookie = browser.cookie;
      await elsewhere.get('/console').expect(200);
      expect((await end(operator.id)).ok).toBe(true);
      app.clock.advance({ seconds: 1 });
      for (const each of [elsewhere, browser]) await each.get('/console').expect(303);
    });

    it('ends when its operator, or the root key, begins the tenth one after it', async () => {
      const { key } = await app.operator(['read']);
      for (const each of [key, ADMIN_KEY]) {
        const browsers: Browser[] = [];
        for (let login = 0; login <= 10; login++) {
          app.clock.advance({ seconds: 1 });
          browsers.push(await Browser.logIn(app, each));
        }
        const statuses = [];
        for (const browser of browsers) statuses.push((await browser.get('/console')).status);
        expect(statuses).toEqual([303, ...Array<number>(10).fill(200)]);
      }
    });

    it('ends with the logout, and shows nothing afterwards', async () => {
      const browser = await Browser.logIn(app);
      const form = await browser.readForm('/console', '/console/logout');
      const { headers } = await browser.send('/console/logout', form).expect(303);
      expect(headers['clear-site-data']).toBe('"cache", "storage"');
      const { headers: after } = await browser.get('/console/users').expect(303);
      expect(after['cache-control']).toBe('no-store');
    });

    it('ends after 30 minutes without a request, and after 8 hours', async () => {
      const idle = await Browser.logIn(app);
      app.clock.advance({ minutes: 29 });
      await idle.get('/console').expect(200);
      app.clock.advance({ minutes: 29 });
      await idle.get('/console').expect(200);
      app.clock.advance({ minutes: 31 });
      await idle.get('/console').expect(303);
      const busy = await Browser.logIn(app);
      for (let minutes = 0; minutes < 8 * 60 - 20; minutes += 20) {
        app.clock.advance({ minutes: 20 });
        await busy.get('/console/app-credentials').expect(200);
      }
      app.clock.advance({ minutes: 21 });
      await busy.get('/console/app-credentials').expect(303);
    });

    it('may do what its operator may, and each act is audited as the operator’s', async () => {
      const { id: operatorId, key } = await app.operator(['nodes']);
      const reader = await Browser.logIn(app, key);
      const { nodeId: id } = await app.node();
      const form = await reader.readForm(`/console/nodes/${id}/revoke`);
      await app.admin.patch(`/operators/${operatorId}`, { scopes: ['read'] }).expect(200);
      expect((await reader.get(`/console/nodes/${id}`).expect(200)).text).not.toContain('Revoke …');
      for (const call of [reader.get(`/console/nodes/${id}/revoke`), reader.send(`/console/nodes/${id}/revoke`, form)])
        expect((await call.expect(403)).text).toContain('can grant it');
      const keeper = await Browser.logIn(app, (await app.operator(['nodes'], 'keeper')).key);
      expect((await keeper.submit(`/console/nodes/${id}/revoke`)).status).toBe(303);
      const revocations = await recorded(app, { subject: id, event: 'admin.node.revoked' });
      expect(revocations).toMatchObject([{ actor: { name: 'operator:keeper' } }]);
    });
  });

  describe('a page', () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await Browser.logIn(app);
      const calls = Array.from({ length: 120 }, (_, n) => app.service(`service-${n % 20}`, `target-${n}`));
      await Promise.all(calls);
    });

    it.each([
      '',
      '/map',
      '/map?service=service-1',
      '/app-credentials',
      '/nodes',
      '/users',
      '/households',
      '/enrolments',
      '/operators',
      '/explain',
      '/audit-events',
    ])('/console%s is neither cached nor framed, and has no inline script or style', async (path) => {
      const { text, headers } = await browser.get(`/console${path}`).expect(200);
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
      });
      expect(headers['content-security-policy']).not.toContain('unsafe');
      expect(text).not.toMatch(/ (style|on\w+)="/);
    });

    it('tells on the first page what needs a person, with a link to the place that mends it', async () => {
      const soon = new Date(Date.now() + 86_400_000).toISOString();
      const { id } = await app.operator(['read'], 'temp', soon);
      const user = await app.user();
      for (let guess = 1; guess <= 17; guess++) await app.login(`nobody-${guess}@example.org`, 'wrong').expect(401);
      for (let guess = 18; guess <= 20; guess++) await app.login(user.email, 'wrong password').expect(401);
      const { text } = await browser.get('/console').expect(200);
      expect(text).toMatch(/Guesses<.*about=127\.0\.0\.1.*wrong guesses at \d+ accounts.*still going on/);
      expect(text).toContain(`href="/console/operators/${id}"`);
      expect(text).toMatch(/user\.login\.failed.*3 × wrong_password.*about=127\.0\.0\.1/);
      expect(text).toContain('Looked at: Guesses, Clocks,');
    });

    it('tells the age of work in the background in the largest unit that fits', async () => {
      const age = (job: string, seconds: number) =>
        app.database.query(`UPDATE job_runs SET succeeded_at = now() - $2 * interval '1 second' WHERE job = $1`, [
          job,
          seconds,
        ]);
      await age('purge', 309);
      await age('key_maintenance', 3 * 3_600);
      const { text } = await browser.get('/console').expect(200);
      expect(text).toMatch(/<dt>purge age<\/dt><dd><span[^>]*>5 minutes</);
      expect(text).toMatch(/<dt>key maintenance age<\/dt><dd><span[^>]*>3 hours</);
    });

    it('draws each counter of the last day, with its figures as a table, for an operator who may read them', async () => {
      const { text } = await browser.get('/console').expect(200);
      expect(text.match(/<svg (?!class="mark")/g)).toHaveLength(6);
      const labels = [...text.matchAll(/aria-label="([\w ]+) by hour: \d+ today, \d+ yesterday"/g)].map(
        ([, name]) => name,
      );
      expect(labels).toEqual([
        'Logins',
        'Failed logins',
        'Throttled guesses',
        'Refused keys',
        'New sessions',
        'Validations',
      ]);
      const keeper = await Browser.logIn(app, (await app.operator(['nodes'])).key);
      expect((await keeper.get('/console').expect(200)).text).not.toMatch(/<svg (?!class="mark")/);
    });

    it('of the menu says how many there are', async () => {
      const replica = await app.startReplica();
      const { text } = await (await Browser.logIn(replica)).get('/console/users').expect(200);
      const { live } = (await app.admin.get('/nodes/summary').expect(200)).body as { live: number };
      const users = await app.database.query('SELECT FROM users');
      expect(text).toMatch(new RegExp(`>Nodes <span class="count">${live}</span>`));
      expect(text).toMatch(new RegExp(`>Users <span class="count">${users.length}</span>`));
      await replica.stop();
    });

    it.each(['/nonsense', '/app-credentials/', '/app-credentials/a/b/c', '/audit-events.xml'])(
      'of the console leads back from /console%s, which it does not have',
      async (path) => {
        const { text, type } = await browser.get(`/console${path}`).expect(404);
        expect({ text, type }).toEqual({ text: expect.stringContaining('<a href="/console">'), type: 'text/html' });
        await new Browser(app).get(`/console${path}`).expect(303);
      },
    );

    it.each([
      ['nodes', ['', '/nodes', '/households', '/enrolments', '/explain']],
      ['apps', ['', '/map', '/app-credentials', '/explain']],
      ['users', ['', '/users', '/explain']],
      ['operators', ['', '/operators']],
      [
        'read',
        [
          '',
          '/map',
          '/nodes',
          '/app-credentials',
          '/operators',
          '/users',
          '/households',
          '/enrolments',
          '/explain',
          '/audit-events',
        ],
      ],
    ] as const)(
      'of the menu of an operator for %s opens, and no visit is counted as a refusal',
      async (scope, paths) => {
        const operator = await app.operator([scope]);
        const visitor = await Browser.logIn(app, operator.key);
        const { text } = await visitor.get('/console').expect(200);
        const [menu = ''] = /<nav.*?<\/nav>/s.exec(text) ?? [];
        const offered = [...menu.matchAll(/href="([^"]+)"/g)].map(([, address]) => address!);
        expect(offered).toEqual(paths.map((path) => `/console${path}`));
        for (const address of offered) await visitor.get(address).expect(200);
        expect(await recorded(app, { event: 'admin.scope.refused', subject: operator.id })).toEqual([]);
      },
    );

    it('names the scopes of which the operator lacks one', async () => {
      const keeper = await Browser.logIn(app, (await app.operator(['operators'])).key);
      const { text } = await keeper.get(`/console/explain?about=${HOUSEHOLD}`).expect(403);
      expect(text).toContain('It needs the scope nodes or read.');
      expect(text).not.toContain('`scopes`');
    });

    it('says what a seal proves, and lists nodes by household', async () => {
      const { text } = await browser.get('/console/audit-events').expect(200);
      expect(text).toContain('A seal proves that the events before it are unchanged');
      const { text: homes } = await browser.get('/console/nodes').expect(200);
      expect(homes.match(new RegExp(`household_id=${HOUSEHOLD}"`, 'g'))).toHaveLength(1);
    });

    it('leads from the live nodes to the live nodes of a household', async () => {
      const { text } = await browser.get('/console/nodes?live=true').expect(200);
      expect(text).toContain(`href="/console/nodes?live=true&amp;household_id=${HOUSEHOLD}"`);
    });

    it.each([
      ['app-credentials', 'IssueAppCredentialRequest'],
      ['nodes', 'IssueNodeRequest'],
      ['enrolments', 'IssueEnrolmentRequest'],
      ['operators', 'IssueOperatorRequest'],
    ])('for a new one of %s asks for each field that its route takes', async (path, name) => {
      const { components } = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
      const { properties = {} } = (components?.schemas?.[name] ?? {}) as { properties?: object };
      const { text } = await browser.get(`/console/${path}/new`).expect(200);
      const fields = [...text.matchAll(/ id="field-(\w+)"/g)].map(([, field]) => field);
      expect(fields.sort()).toEqual(Object.keys(properties).sort());
    });

    it('finds a user by the id or by the address, which stands in no URL, and asks again at a reload', async () => {
      const { id, email } = await app.user();
      const proof = await browser.readForm('/console/users', '/console/users/search');
      const search = (text: string, form = proof) => browser.send('/console/users/search', { ...form, search: text });
      expect((await search(id).expect(303)).headers.location).toBe(`/console/users/${id}`);
      for (const part of [email, email.slice(2, -3), email.slice(2, -3)])
        expect((await search(part).expect(200)).text).toContain(`href="/console/users/${id}"`);
      await search(email, {}).expect(403);
      await browser.get(`/console/users?search=${encodeURIComponent(email)}`).expect(400);
    });

    it('explains a user by the address, which stands in no URL', async () => {
      const { id, email } = await app.user();
      const { headers } = await browser.submit('/console/explain', { about: email });
      expect(headers.location).toBe(`/console/explain?about=${id}`);
      await browser.get(`/console/explain?about=${encodeURIComponent(email)}`).expect(400);
      const { text } = await browser.submit('/console/explain', { about: 'nobody@example.org' });
      expect(text).toContain('No user has this e-mail address.');
    });

    it('keeps what was typed for an unknown address, and asks again at a reload', async () => {
      const typed = { about: 'nobody@example.org', service: 'recipes', address: '192.0.2.7' };
      const form = await browser.readForm('/console/explain');
      for (const _ of ['first', 'reload']) {
        const { text } = await browser.send('/console/explain', { ...form, ...typed }).expect(200);
        for (const value of Object.values(typed)) expect(text).toContain(`value="${value}"`);
      }
    });

    it('explains an address of a network, and a request', async () => {
      const key = 'wrong-console-key-0123456789abcdefghijklmnop';
      await new Browser(app).sendKey(key).expect(401);
      const { text } = await browser.get('/console/explain?about=127.0.0.1').expect(200);
      expect(text).toContain('127.0.0.1 is not throttled now');
      const [event] = await recorded(app, { event: 'admin.app_credential.issued' });
      const request = await browser.get(`/console/explain?about=${event!.request_id}`).expect(200);
      expect(request.text).toContain('admin.app_credential.issued');
    });

    it('says what an act would end, in numbers', async () => {
      const user = await app.user();
      for (let login = 0; login < 2; login += 1) await user.logsIn();
      const { text } = await browser.get(`/console/users/${user.id}/end-sessions`).expect(200);
      expect(text).toMatch(/Open sessions: 2, last used <time/);
    });

    it('shows the newest of many sessions, and counts neither ended nor expired ones as open', async () => {
      const user = await app.user();
      await user.logsIn();
      const clone = (first: number, last: number, end: string) =>
        app.database.query(
          `INSERT INTO sessions SELECT (jsonb_populate_record(sessions, jsonb_build_object(
              'id', '00000000-0000-7000-8000-' || right($1::text, 8) || lpad(n::text, 4, '0'),
              'token_digest', '\\x' || encode(sha256(($1::text || n)::bytea), 'hex'), 'user_agent', 'former') || ${end})).*
            FROM sessions, generate_series(${first}, ${last}) AS n
            WHERE user_id = $1::uuid AND user_agent IS DISTINCT FROM 'former'`,
          [user.id],
        );
      await clone(1, 100, `jsonb_build_object('ended_at', now(), 'end_reason', 'logout')`);
      await clone(101, 101, `jsonb_build_object('expires_at', now() - interval '1 day')`);
      const text = (await browser.get(`/console/users/${user.id}`).expect(200)).text;
      expect(text.match(/<td>open<\/td>/g)).toHaveLength(1);
      expect(text.match(/<td>expired<\/td>/g)).toHaveLength(1);
      expect((await browser.get(`/console/users/${user.id}/end-sessions`).expect(200)).text).toContain(
        'Open sessions: 1',
      );
    });

    it('draws the neighbours of a service when there are more arrows than one can read', async () => {
      expect((await browser.get('/console/map').expect(200)).text).not.toContain('class="hit"');
      const { text } = await browser.get('/console/map?service=service-1').expect(200);
      expect(text.match(/class="hit"/g)).toHaveLength(6);
    });

    it('downloads all filtered events, and no formula', async () => {
      const path = '/console/audit-events.ndjson?event=admin.app_credential.issued';
      const text = String((await browser.get(path).buffer(true).parse(readText).expect(200)).body);
      expect(text.trim().split('\n')).toHaveLength(120);
      expect(JSON.parse(text.split('\n', 1)[0]!)).toMatchObject({ event: 'admin.app_credential.issued' });
      const csv = (await browser.get('/console/audit-events.csv').expect(200)).text;
      expect(csv).not.toMatch(/(^|,)"?[=+@-]/m);
    });

    it('downloads many events without a listener for each page', async () => {
      await app.database.query(
        `INSERT INTO audit_events (id, time, event, actor_door, count, details)
         SELECT gen_random_uuid(), date_trunc('milliseconds', now()), 'user.registered', 'open', 1, '{}' FROM generate_series(1, 1500)`,
      );
      const warned = jest.fn();
      process.on('warning', warned);
      const { text } = await browser.get('/console/audit-events.csv?event=user.registered').expect(200);
      process.off('warning', warned);
      expect(text.split('\n').length).toBeGreaterThan(1_500);
      expect(warned).not.toHaveBeenCalled();
    });

    it('downloads what a relative filter named at its begin, however slow the download is', async () => {
      await app.database.query(
        `INSERT INTO audit_events (id, time, event, actor_door, count, details)
         SELECT gen_random_uuid(), date_trunc('milliseconds', now()) - interval '55 minutes', 'user.email.verified',
           'open', 1, '{}' FROM generate_series(1, 150)`,
      );
      const sessions = app.nest.get(ConsoleSessions);
      const find = sessions.findSession.bind(sessions);
      const clock = jest.spyOn(Date, 'now');
      const beforeSecondPage = async (...asked: Parameters<typeof find>) => {
        const found = await find(...asked);
        const later = Date.now() + 10 * 60_000;
        clock.mockReturnValue(later);
        return found;
      };
      const judged = jest
        .spyOn(sessions, 'findSession')
        .mockImplementationOnce(find)
        .mockImplementationOnce(beforeSecondPage);
      const path = '/console/audit-events.csv?event=user.email.verified&since=-1h';
      const { text } = await browser.get(path).expect(200);
      clock.mockRestore();
      judged.mockRestore();
      expect(text.trim().split('\n')).toHaveLength(151);
    });

    it('downloads nothing more once the operator has lost the scope', async () => {
      const operator = await app.operator(['read']);
      const reader = await Browser.logIn(app, operator.key);
      const sessions = app.nest.get(ConsoleSessions);
      const find = sessions.findSession.bind(sessions);
      const beforeSecondPage = async (...asked: Parameters<typeof find>) => {
        await app.admin.patch(`/operators/${operator.id}`, { scopes: ['nodes'] }).expect(200);
        return find(...asked);
      };
      const judged = jest
        .spyOn(sessions, 'findSession')
        .mockImplementationOnce(find)
        .mockImplementationOnce(beforeSecondPage);
      await expect(reader.get('/console/audit-events.ndjson').buffer(true)).rejects.toThrow('aborted');
      expect(judged).toHaveBeenCalledTimes(2);
      judged.mockRestore();
    });

    it('finishes the rotation of an app’s key, and then no longer offers it', async () => {
      const { appId, headers } = await app.service();
      await app.admin.post(`/app-credentials/${appId}/rotate`).expect(200);
      const path = `/console/app-credentials/${appId}`;
      expect((await browser.get(path).expect(200)).text).toContain(`href="${path}/finish"`);
      expect((await browser.submit(`${path}/finish`)).status).toBe(303);
      await app.validateApp(headers).expect(401);
      expect((await browser.get(path).expect(200)).text).not.toContain(`href="${path}/finish"`);
    });

    it('shows an app credential that is refused in red, and why', async () => {
      const service = await app.service('hermit', 'auth');
      await app.admin.delete(`/app-credentials/${service.appId}`).expect(204);
      await app.post('/internal/validate-app').set(service.headers).expect(401);
      await app.nest.get(CountedRefusals).flush();
      const { text } = await browser.get('/console/map?service=hermit&revoked=true').expect(200);
      expect(text).toMatch(/aria-label="hermit calls auth: [^"]*refused in the last hour".*<path class="bad revoked"/);
      expect((await browser.get('/console').expect(200)).text).toMatch(/app\.validation\.failed.*1 × revoked/);
    });

    it('explains a key for the service that refused it', async () => {
      const { appId } = await app.service(undefined, 'ocr');
      const about = `/console/explain?about=${appId}`;
      expect((await browser.get(`${about}&service=ocr`).expect(200)).text).toContain('would be accepted now');
      expect((await browser.get(`${about}&service=recipes`).expect(200)).text).toContain('other_target');
    });

    it('explains to an operator with one scope what that scope is about', async () => {
      const [node, service, user] = [await app.node(), await app.service('hermit', 'why'), await app.user()];
      const ids = { nodes: node.nodeId, apps: service.appId, users: user.id } as const;
      for (const scope of ['nodes', 'apps', 'users'] as const) {
        const keeper = await Browser.logIn(app, (await app.operator([scope])).key);
        for (const [about, id] of Object.entries(ids)) {
          const { text } = await keeper.get(`/console/explain?about=${id}`).expect(200);
          expect({ scope, about, isExplained: text.includes('would be accepted now') }).toEqual({
            scope,
            about,
            isExplained: scope === about,
          });
        }
      }
    });

    it.each<[OperatorScope, string[]]>([
      ['nodes', ['about', 'service']],
      ['apps', ['about', 'service']],
      ['users', ['about', 'address']],
      ['read', ['about', 'service', 'address']],
    ])('asks an operator with the scope %s for %j', async (scope, names) => {
      const { text } = await (await Browser.logIn(app, (await app.operator([scope])).key)).get('/console/explain');
      expect([...text.matchAll(/<label for="field-(\w+)">/g)].map(([, name]) => name)).toEqual(names);
    });

    it('shows a new key with the variables that the services read it from', async () => {
      const pair = { caller: 'mcp', target: 'speech-to-text', scopes: '', expires_at: '' };
      const form = await browser.readForm('/console/app-credentials/new', '/console/app-credentials');
      const { text } = await browser.send('/console/app-credentials', { ...form, ...pair }).expect(200);
      expect(text).toMatch(/SPEECH_TO_TEXT_APP_ID=[0-9a-f-]{36}\nSPEECH_TO_TEXT_APP_KEY=pa_app_/);
    });
  });
});

function readText(response: Response, done: (error: Error | null, text: string) => void): void {
  let text = '';
  response.on('data', (chunk: Buffer) => (text += chunk.toString())).on('end', () => done(null, text));
}

it.each([
  ['is not there without CONSOLE', {}],
  ['is on INTERNAL_PORT only, where that is set', { CONSOLE: 'on', INTERNAL_PORT: '0' }],
])('/console %s', async (_where, variables) => {
  const app = await TestApp.start({ variables: { ...UNLEASED, ...variables } });
  for (const path of ['/console', '/console/login', '/console/static/console.css']) await app.get(path).expect(404);
  await app.stop();
});
