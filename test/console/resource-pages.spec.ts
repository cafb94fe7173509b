import type { OpenAPIObject } from '@nestjs/swagger';
import { CountedRefusals } from '../../src/domain/audit/counted-refusals.js';
import { recorded } from '../domain/audit/record.js';
import { Browser } from '../support/console-browser.js';
import { Home } from '../support/home.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const DAY_MS = 86_400_000;

describe('a page of the console', () => {
  const app = useApp({
    variables: {
      ...UNLEASED,
      CONSOLE: 'on',
      NODE_TARGETS: 'recipes,ocr',
      LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '3/900',
    },
  });
  let browser: Browser;
  beforeAll(async () => {
    browser = await Browser.logIn(app);
  });

  const show = async (path: string): Promise<string> => (await browser.get(`/console${path}`).expect(200)).text;

  it('says that a throttled account is refused, by address and until when', async () => {
    const { id, email } = await app.user();
    expect(await show(`/users/${id}`)).toContain('would be accepted');
    for (let wrong = 0; wrong < 3; wrong += 1) await app.login(email, 'not the password').expect(401);
    for (const path of [`/users/${id}`, `/explain?about=${id}`]) {
      const text = await show(path);
      expect(text).toContain('would be refused');
      expect(text).toMatch(/(127\.0\.0\.1.*)?for this account from this address.*(127\.0\.0\.1.*)?<time/);
      expect(text).toContain('127.0.0.1');
    }
  });

  it('says when a key expires where it is rotated, and that the old key ends then too', async () => {
    const expires_at = new Date(Date.now() + DAY_MS / 2).toISOString();
    const { body } = await app.admin.post('/app-credentials', { caller: 'ui', target: 'wiki', expires_at }).expect(201);
    const path = `/console/app-credentials/${(body as { app_id: string }).app_id}`;
    const end = `<time datetime="${expires_at}"`;
    expect((await browser.get(`${path}/rotate`).expect(200)).text).toContain(end);
    const { text } = await browser.submit(`${path}/rotate`, { overlap_hours: '24' });
    expect(text.split(end)).toHaveLength(3);
    expect((await browser.get(path).expect(200)).text).toContain(`The old key is valid until ${end}`);
    const { body: explained } = await app.admin.get(`${path.replace('/console', '')}/explain`).expect(200);
    expect(explained).toMatchObject({ previous_key_accepted_until: expires_at });
  });

  it('says of an old key that it was used, when it says that the credential was', async () => {
    const { appId, headers } = await app.service();
    app.clock.advance({ seconds: 1 });
    await app.admin.post(`/app-credentials/${appId}/rotate`).expect(200);
    app.clock.advance({ seconds: 1 });
    await app.validateApp(headers).expect(200);
    for (const action of ['', '/finish']) {
      const text = await show(`/app-credentials/${appId}${action}`);
      expect(text).toMatch(/It was used <time/);
      expect(text).not.toContain('not used since');
    }
  });

  it('says in which count a request id went, and from which addresses the refusals came', async () => {
    const { id: subject } = await app.user();
    const counted = { event: 'user.login.failed', reason: 'wrong_password', counted: subject, subject } as const;
    const sent = ['192.0.2.1', '192.0.2.2'].map((address) => ({ address, requestId: crypto.randomUUID() }));
    for (const actor of sent)
      await app.nest.get(CountedRefusals).countRefusal(counted, { door: 'open', id: null, ...actor });
    expect(await recorded(app, { subject, event: counted.event })).toHaveLength(1);
    const later = sent[1]!.requestId;
    const text = await show(`/explain?about=${later}`);
    expect(text).toContain(`2 × wrong_password by open from 192.0.2.1, 192.0.2.2 (request ${later} is one of them)`);
  });

  it('fills in NODE_TARGETS for a new node, which gets them, others, or all', async () => {
    const asked = { household_id: HOUSEHOLD, room: 'attic', name: 'sensor', expires_at: '' };
    for (const [sent, targets] of [
      ['recipes ocr', ['recipes', 'ocr']],
      ['wiki', ['wiki']],
      ['', null],
    ] as const) {
      const form = await browser.readForm('/console/nodes/new', '/console/nodes');
      await browser.send('/console/nodes', { ...form, ...asked, targets: sent }).expect(200);
      const { items } = (await app.admin.get('/nodes?search=attic').expect(200)).body as { items: object[] };
      expect(items.at(-1)).toMatchObject({ targets });
    }
    expect(await show('/nodes/new')).toMatch(
      /value="ocr" checked.*value="recipes" checked.*filled in from NODE_TARGETS/s,
    );
  });

  it.each([
    ['/app-credentials', { caller: 'ui', target: 'no name!', scopes: 'documents:read', expires_at: 'tomorrow' }],
    ['/users', { email: 'not an address', password: 'correct horse battery' }],
    ['/operators', { name: 'nora', scopes: 'everything', expires_at: '' }],
  ])('%s keeps the form of a refused resource, and says what is wrong beside the field', async (path, typed) => {
    const form = await browser.readForm(`/console${path}/new`, `/console${path}`);
    const { text } = await browser.send(`/console${path}`, { ...form, ...typed }).expect(400);
    expect(text).toMatch(/aria-invalid="true"[^>]*aria-describedby="field-\w+-error/);
    expect(text).toMatch(/<small id="field-\w+-error" class="bad">/);
    for (const value of Object.values(typed).filter((each) => each !== '' && !each.includes('horse')))
      expect(text).toContain(`value="${value}"`);
    expect(text).not.toContain('correct horse');
  });

  it('keeps the form of an action and of a filter, too', async () => {
    const { nodeId } = await app.node();
    const path = `/console/nodes/${nodeId}`;
    const changed = await browser.submit(`${path}/change`, { room: 'kitchen', name: 'x', expires_at: 'never' });
    expect(changed.status).toBe(400);
    expect(changed.text).toMatch(/value="kitchen".*Expires at must be/s);
    const { id, email } = await app.user();
    const deleted = await browser.submit(`/console/users/${id}/delete`, { name: 'another@example.org' });
    expect(deleted.text).toMatch(/value="another@example.org".*so nothing was changed/s);
    expect(await show('/users')).toContain(email);
    for (const list of ['/nodes?unused_since=soon', '/audit-events?since=soon']) {
      const { text } = await browser.get(`/console${list}`).expect(400);
      expect(text).toMatch(/value="soon"[^>]*>.*since must be/is);
    }
  });

  it('keeps check boxes that were cleared in a form that is refused', async () => {
    const { id } = await app.operator(['read', 'nodes']);
    // A browser sends no field without a chosen box.
    const { status, text } = await browser.submit(`/console/operators/${id}/change`, { expires_at: 'soon' });
    expect(status).toBe(400);
    expect(text).not.toMatch(/type="checkbox" name="scopes" value="\w+" checked/);
  });

  it('keeps the form of what conflicts with another resource', async () => {
    const pair = { caller: 'twice', target: 'wiki', scopes: '', expires_at: '' };
    const create = async () =>
      browser.send('/console/app-credentials', {
        ...(await browser.readForm('/console/app-credentials/new', '/console/app-credentials')),
        ...pair,
      });
    expect((await create()).status).toBe(200);
    const { status, text } = await create();
    expect({ status, text }).toEqual({ status: 409, text: expect.stringContaining('value="twice"') as string });
    expect(text).toContain('The pair has a live credential');
  });

  describe('for many at once', () => {
    const choose = async (list: string, ids: readonly string[], filter = '') => {
      const form = await browser.readForm(`/console/nodes${list}`, '/console/nodes/choose');
      return browser.send('/console/nodes/choose', { ...form, filter: filter || form.filter!, ids: ids.join(' ') });
    };
    const readForm = (text: string): Record<string, string> => {
      const [, form = ''] = text.split('action="/console/nodes/chosen"');
      const hidden = form.split('</form>', 1)[0]!.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g);
      return Object.fromEntries([...hidden].map(([, name = '', value = '']) => [name, value]));
    };

    it('says how many there are, names the first ten, and revokes all of them', async () => {
      const household_id = crypto.randomUUID();
      const ids: string[] = [];
      for (let index = 10; index < 40; index += 1) {
        const asked = { household_id, room: 'hall', name: `lamp${index}` };
        const { body } = await app.admin.post('/nodes', asked).expect(201);
        ids.push((body as { node_id: string }).node_id);
      }
      const list = `?household_id=${household_id}`;
      const page = await show(`/nodes${list}`);
      expect(page.match(/<input type="checkbox" name="ids"/g)).toHaveLength(30);
      expect(page).toContain('Revoke all 30 of this page');
      const asked = await choose(list, [...ids, ids[0]!, crypto.randomUUID()]);
      expect(asked.text).toContain('<h1>Revoke 30 nodes</h1>');
      expect([...asked.text.matchAll(/<bdi>hall\/lamp(\d+)<\/bdi>/g)].map(([, n]) => Number(n))).toEqual(
        Array.from({ length: 10 }, (_, index) => index + 10),
      );
      expect(asked.text).toContain('and 20 more');
      const { headers, status } = await browser.send('/console/nodes/chosen', readForm(asked.text));
      expect({ status, location: headers.location }).toEqual({
        status: 303,
        location: `/console/nodes${list}&done=revoked&count=30`,
      });
      const after = (await browser.get(headers.location!).expect(200)).text;
      expect(after).toContain('Done: 30 nodes revoked.');
      expect(after).not.toContain('type="checkbox" name="ids"');
      expect(await recorded(app, { event: 'admin.node.revoked', subject: ids[29]! })).toHaveLength(1);
    });

    it('revokes nothing without a choice, without the scope, or for a type that has no such action', async () => {
      const { nodeId } = await app.node();
      expect((await choose('', [])).text).toContain('Choose at least one node');
      const reader = await Browser.logIn(app, (await app.operator(['read'])).key);
      expect((await reader.get('/console/nodes').expect(200)).text).not.toContain('type="checkbox"');
      const asked = readForm((await choose('', [nodeId])).text);
      await reader.send('/console/nodes/chosen', asked).expect(403);
      await browser.send('/console/nodes/chosen', { ...asked, form: 'x' }).expect(403);
      expect(await show(`/nodes/${nodeId}`)).toContain('>live<');
      expect(await show('/operators')).not.toContain('type="checkbox"');
    });
  });

  it('has links to the orders of a list, says which one it has, and keeps it when a filter changes', async () => {
    await app.node();
    const text = await show('/nodes?live=true');
    expect(text).toMatch(/<th scope="col" aria-sort="ascending"><a href="[^"]*live=true&amp;sort=household_id_desc">/);
    expect(text).toContain('<th scope="rowgroup"');
    const [, newest] = /<th scope="col"><a href="([^"]*sort=created_at)">Issued/.exec(text) ?? [];
    const sorted = (await browser.get(newest!.replaceAll('&amp;', '&')).expect(200)).text;
    expect(sorted).toMatch(/aria-sort="ascending"><a href="[^"]*sort=created_at_desc">Issued/);
    expect(sorted).toContain('<input type="hidden" name="sort" value="created_at"/>');
    expect(sorted).not.toContain('rowgroup');
    const { email } = await app.user();
    expect(await show('/users')).toMatch(/<a href="\/console\/users\?sort=email">Name/);
    const form = await browser.readForm('/console/users', '/console/users/search');
    const found = await browser.send('/console/users/search', { ...form, search: email }).expect(200);
    expect(found.text).not.toContain('?sort=');
  });

  it.each([
    ['app-credentials', 'AppCredentialResponse', async () => (await app.service()).appId],
    ['nodes', 'NodeResponse', async () => (await app.node()).nodeId],
    ['operators', 'OperatorResponse', async () => (await app.operator()).id],
  ])('of one of %s shows each property that its route answers with', async (path, name, make) => {
    const { components } = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    const { properties = {} } = (components?.schemas?.[name] ?? {}) as { properties?: object };
    const { text } = await browser.get(`/console/${path}/${await make()}`).expect(200);
    const shown = [...text.matchAll(/<dt>([^<]+)<\/dt>/g)].map(([, label = '']) => label.toLowerCase());
    // In the words of the page: of the key and its uses.
    const isOfKey =
      /^(created|updated|expires|revoked|rotated|previous_key|last_used|current_key)_|^(app|node|operator)_id$/;
    const others = Object.keys(properties).filter((property) => !isOfKey.test(property));
    expect(others.length).toBeGreaterThan(1);
    expect(shown).toEqual(
      expect.arrayContaining(others.map((property) => property.replace(/_id$/, '').replaceAll('_', ' '))),
    );
  });

  it.each([
    ['users', async () => (await app.user()).id],
    ['households', async () => (await Home.of(app)).id],
  ])('of one of %s shows a property of its answer that the page has no words for', async (path, make) => {
    expect(await show(`/${path}/${await make()}`)).toContain('<dt>Updated at</dt>');
  });

  it('offers the services and scopes that exist, and the scopes of operators as check boxes only', async () => {
    const asked = { caller: 'ui', target: 'archive', scopes: ['documents:read'] };
    await app.admin.post('/app-credentials', asked).expect(201);
    const form = await show('/app-credentials/new');
    expect(form).toMatch(/<datalist id="field-target-known">.*<option value="archive">/s);
    expect(form).toMatch(/<input type="checkbox" name="scopes" value="documents:read"/);
    const keeper = await Browser.logIn(app, (await app.operator(['nodes'])).key);
    expect((await keeper.get('/console/nodes/new').expect(200)).text).not.toContain('archive');
    const scopes = [...(await show('/operators/new')).matchAll(/type="checkbox" name="scopes" value="(\w+)"/g)];
    expect(scopes.map(([, scope]) => scope)).toEqual(['read', 'nodes', 'apps', 'users', 'operators']);
  });
});
