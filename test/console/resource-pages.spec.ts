import { CountedRefusals } from '../../src/domain/audit/counted-refusals.js';
import { recorded } from '../domain/audit/record.js';
import { Browser } from '../support/console-browser.js';
import { useApp } from '../support/use-app.js';

const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const DAY_MS = 86_400_000;

describe('a page of the console', () => {
  const app = useApp({
    variables: { CONSOLE: 'on', NODE_TARGETS: 'recipes,ocr', LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '3/900' },
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
    expect(await show('/nodes/new')).toMatch(/value="recipes ocr".*filled in from NODE_TARGETS/s);
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
});
