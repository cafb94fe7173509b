import { recorded } from '../domain/audit/record.js';
import { Browser } from '../support/console-browser.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on', CONSOLE_LABEL: 'production' } });

describe('the search field of the console', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await Browser.logIn(app);
  });

  const search = async (query: string, by = browser) =>
    by.send('/console/search', { ...(await by.readForm('/console', '/console/search')), query });

  it('leads to what has the id, the e-mail address or the name, also twice with one form', async () => {
    const [user, node] = [await app.user(), await app.node()];
    const { appId } = await app.service('seeker', 'wiki');
    const operator = await app.operator(['read'], 'searching-nora');
    const found = {
      [user.id]: `/console/users/${user.id}`,
      [user.email]: `/console/users/${user.id}`,
      [node.nodeId]: `/console/nodes/${node.nodeId}`,
      [appId]: `/console/app-credentials/${appId}`,
      seeker: `/console/app-credentials/${appId}`,
      [operator.id]: `/console/operators/${operator.id}`,
      'searching-nora': `/console/operators/${operator.id}`,
      '192.0.2.7': '/console/explain?about=192.0.2.7',
    };
    const form = await browser.readForm('/console/nodes', '/console/search');
    for (const [query, location] of Object.entries(found)) {
      const { status, headers } = await browser.send('/console/search', { ...form, query });
      expect({ query, status, location: headers.location }).toEqual({ query, status: 303, location });
    }
    const [event] = await recorded(app, { event: 'admin.node.issued' });
    const { headers } = await search(event!.request_id!);
    expect(headers.location).toBe(`/console/explain?about=${event!.request_id!}`);
    expect((await search('no such name')).text).toContain('Found: none.');
  });

  it('tells whose a pasted key is, and neither shows, logs nor records it', async () => {
    const node = await app.node();
    const { headers, appId } = await app.service();
    const pasted = { [headers['X-Platform-App-Key']!]: `/console/app-credentials/${appId}` };
    pasted[node.header] = `/console/nodes/${node.nodeId}`;
    for (const [key, address] of Object.entries(pasted)) {
      const { status, text } = await search(key);
      expect(status).toBe(200);
      expect(text).toContain('It is the current key of');
      expect(text).toContain(`href="${address}"`);
      expect(text + JSON.stringify(app.log.lines)).not.toContain(key.split(':').at(-1));
    }
    const unknown = `pa_node_${'x'.repeat(43)}`;
    const { text } = await search(unknown);
    expect(text).toContain('It looks like a key');
    expect(text).not.toContain(unknown);
  });

  it('finds what the scopes of the operator allow, and counts no refusal', async () => {
    const operator = await app.operator(['users']);
    const keeper = await Browser.logIn(app, operator.key);
    const [user, node] = [await app.user(), await app.node()];
    expect((await search(user.id, keeper)).headers.location).toBe(`/console/users/${user.id}`);
    expect((await search(node.nodeId, keeper)).headers.location).toBe(`/console/explain?about=${node.nodeId}`);
    await search('kitchen', keeper);
    expect(await recorded(app, { event: 'admin.scope.refused', subject: operator.id })).toEqual([]);
  });

  it('stands on every page, below the name of the product and its environment', async () => {
    for (const path of ['', '/map', '/nodes', '/nodes/new', '/users', '/explain', '/audit-events', '/time-zone']) {
      const { text } = await browser.get(`/console${path}`).expect(200);
      expect(text).toContain('action="/console/search"');
      expect(text).toContain('<span class="label production">production</span>');
    }
    const { text } = await new Browser(app).get('/console/login').expect(200);
    expect(text).toContain('<span class="label production">production</span>');
  });
});

describe('a page of the console', () => {
  it('leads back by its breadcrumbs, names what ids are of, and says what was done', async () => {
    const browser = await Browser.logIn(app);
    const { nodeId } = await app.node();
    const path = `/console/nodes/${nodeId}`;
    const { text: asked } = await browser.get(`${path}/rotate`).expect(200);
    const [trail] = /<nav aria-label="Breadcrumb".*?<\/nav>/s.exec(asked) ?? [];
    expect([...trail!.matchAll(/href="([^"]+)"/g)].map(([, address]) => address)).toEqual([
      '/console',
      '/console/nodes',
      path,
    ]);
    const { headers } = await browser.submit(`${path}/revoke`);
    const { text } = await browser.get(headers.location!).expect(200);
    expect(text).toContain('<p role="status">Done: Revoke.</p>');
    const [name] = /(?<=<h1>)[^<]+/.exec(text) ?? [];
    const { text: log } = await browser.get('/console/audit-events?event=admin.node.revoked').expect(200);
    expect(log).toMatch(new RegExp(`>${name}</a>.*<code>${nodeId}</code>`, 's'));
  });

  it('shows moments in the time zone that its reader chose', async () => {
    const browser = await Browser.logIn(app);
    const operator = await app.operator(['read'], 'tokyo', '2031-01-31T20:30:00.000Z');
    const path = `/console/operators/${operator.id}`;
    expect((await browser.get(path).expect(200)).text).toContain('title="2031-01-31 20:30:00 UTC"');
    const refused = await browser.submit('/console/time-zone', { zone: 'Mars/Olympus' });
    expect(refused.text).toContain('is not a time zone');
    const { headers } = await browser.submit('/console/time-zone', { zone: 'Asia/Tokyo' });
    browser.cookie += `; ${/^[^;]+/.exec(headers['set-cookie']![0]!)![0]}`;
    expect((await browser.get(path).expect(200)).text).toContain('title="2031-02-01 05:30:00 GMT+9"');
    const form = (await browser.get(`${path}/change`).expect(200)).text;
    expect(form).toContain('type="datetime-local" step="1" value="2031-02-01T05:30:00"');
    await browser.submit(`${path}/change`, { scopes: 'read', expires_at: '2031-02-02T00:15' }).then(({ status }) => {
      expect(status).toBe(303);
    });
    expect((await browser.get(path).expect(200)).text).toContain('datetime="2031-02-01T15:15:00.000Z"');
  });

  describe('in the form of a change', () => {
    const changeName = async (zone: string, expiry: string) => {
      const browser = await Browser.logIn(app);
      browser.cookie += `; console-zone=${encodeURIComponent(zone)}`;
      const { nodeId } = await app.node();
      const expires_at = new Date(expiry).toISOString();
      await app.admin.patch(`/nodes/${nodeId}`, { expires_at }).expect(200);
      const path = `/console/nodes/${nodeId}/change`;
      const shown = (await browser.get(path).expect(200)).text;
      const [, local = ''] = /type="datetime-local" step="1" value="([^"]*)"/.exec(shown) ?? [];
      const change = async (expires: string, by = browser) => {
        const { status } = await by.send(path, {
          ...(await browser.readForm(path)),
          room: 'hall',
          name: `lamp-${Date.now()}`,
          expires_at: expires,
        });
        expect(status).toBe(303);
        const { body } = await app.admin.get(`/nodes/${nodeId}`).expect(200);
        expect(body).toMatchObject({ room: 'hall' });
        return (body as { expires_at: string }).expires_at;
      };
      return { browser, expires_at, local, change };
    };

    it.each([
      ['Europe/Berlin', '2031-10-26T00:30:15Z', '2031-10-26T02:30:15'],
      ['Europe/Berlin', '2031-10-26T01:30:00Z', '2031-10-26T02:30:00'],
      ['America/New_York', '2031-11-02T06:30:00Z', '2031-11-02T01:30:00'],
      ['UTC', '2031-11-02T06:30:00.789Z', '2031-11-02T06:30:00'],
      ['Europe/Berlin', '9999-12-31T23:59:59Z', '10000-01-01T00:59:59'],
    ])('leaves an expiry that was not changed as it is: %s, %s', async (zone, expiry, shown) => {
      const { expires_at, local, change } = await changeName(zone, expiry);
      expect(local).toBe(shown);
      // Calendars leave out seconds that are zero.
      expect(await change(local.replace(/:00$/, ''))).toBe(expires_at);
    });

    it('reads a calendar in the time zone in which the form showed it', async () => {
      const { browser, expires_at, local, change } = await changeName('UTC', '2031-07-01T10:00:00Z');
      const later = new Browser(app);
      later.cookie = browser.cookie.replace('=UTC', '=Asia%2FTokyo');
      expect(await change(local, later)).toBe(expires_at);
      expect(await change('2031-07-01T12:00', later)).toBe('2031-07-01T12:00:00.000Z');
    });
  });

  it.each(['0026-07-01T12:30', '0001-01-01T00:00', '9999-12-31T23:59'])(
    'answers a filter with the calendar at %s, which is easily typed',
    async (typed) => {
      const browser = await Browser.logIn(app);
      for (const zone of ['UTC', 'Europe%2FBerlin', 'America%2FNew_York']) {
        const reader = new Browser(app);
        reader.cookie = `${browser.cookie}; console-zone=${zone}`;
        const { status, headers } = await reader.get(`/console/nodes?expires_before=${typed}`);
        expect({ zone, status }).toEqual({ zone, status: 303 });
        expect([200, 400]).toContain((await reader.get(headers.location!)).status);
      }
    },
  );

  it('has filters with a calendar in the time zone of the reader, and an address that is the same for others', async () => {
    const browser = await Browser.logIn(app);
    browser.cookie += '; console-zone=Europe%2FBerlin';
    for (const [list, name] of [
      ['/console/nodes', 'unused_since'],
      ['/console/audit-events', 'since'],
    ] as const) {
      const { headers } = await browser.get(`${list}?${name}=2026-07-01T12:30&${name}_word=`).expect(303);
      expect(headers.location).toBe(`${list}?${name}=2026-07-01T10%3A30%3A00.000Z`);
      expect((await browser.get(headers.location!).expect(200)).text).toContain('value="2026-07-01T12:30:00"');
      const chosen = await browser.get(`${list}?${name}=&${name}_word=-7d`).expect(303);
      expect(chosen.headers.location).toBe(`${list}?${name}=-7d`);
      expect((await browser.get(chosen.headers.location!).expect(200)).text).toContain('<option value="-7d" selected>');
    }
  });
});
