import { randomUUID } from 'node:crypto';
import { ADMIN_KEY, UNLEASED } from '../support/settings.js';
import { Browser } from '../support/console-browser.js';
import { useApp } from '../support/use-app.js';
import { recorded } from '../domain/audit/record.js';

const LABEL = 'Your key, again';

describe('an action of the console that shows a secret, grants rights or cannot be undone', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' } });

  const isThere = async (id: string): Promise<boolean> => (await app.admin.get(`/users/${id}`)).status === 200;

  /** A page that is open for longer than a proof is fresh. */
  const openOldPage = async (key: string) => {
    const { id, email } = await app.user();
    const browser = await Browser.logIn(app, key);
    app.clock.advance({ minutes: 6 });
    return { id, browser, path: `/console/users/${id}/delete`, name: email };
  };

  it('asks nothing more right after the login', async () => {
    const { id, email } = await app.user();
    const browser = await Browser.logIn(app);
    const path = `/console/users/${id}/delete`;
    expect((await browser.get(path).expect(200)).text).not.toContain(LABEL);
    expect((await browser.submit(path, { name: email })).status).toBe(303);
    expect(await isThere(id)).toBe(false);
  });

  it('needs the key again, 5 minutes after the login, and then not for 5 minutes', async () => {
    const { id, browser, path, name } = await openOldPage(ADMIN_KEY);
    expect((await browser.get(path).expect(200)).text).toContain(LABEL);
    const { status, text } = await browser.submit(path, { name });
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining(LABEL) as string });
    expect(await isThere(id)).toBe(true);
    expect((await browser.submit(path, { name, key: ADMIN_KEY })).status).toBe(303);
    expect(await isThere(id)).toBe(false);
    const { id: next } = await app.user();
    expect((await browser.get(`/console/users/${next}/delete`).expect(200)).text).not.toContain(LABEL);
  });

  const ISSUES = {
    operators: { name: 'x', scopes: 'read' },
    'app-credentials': { caller: 'x', target: 'y' },
    nodes: { household_id: randomUUID(), room: 'kitchen', name: 'x' },
    enrolments: { household_id: randomUUID(), room: 'kitchen', name: 'x', expires_in_minutes: '10' },
    users: { email: 'invited@example.org' },
  };

  it.each(Object.entries(ISSUES))('needs it to issue one of the %s', async (path, fields) => {
    const address = `/console/${path}`;
    const list = async () => (await app.admin.get(`/${path}?limit=100`).expect(200)).body as { items: unknown[] };
    const browser = await Browser.logIn(app);
    app.clock.advance({ minutes: 6 });
    const before = await list();
    const form = await browser.readForm(`${address}/new`, address);
    const { text } = await browser.send(address, { ...form, ...fields }).expect(400);
    expect(text).toContain(LABEL);
    expect((await list()).items).toHaveLength(before.items.length);
    expect((await browser.send(address, { ...form, ...fields, key: ADMIN_KEY })).status).toBeLessThan(400);
    expect((await list()).items).toHaveLength(before.items.length + 1);
  });

  /** Makes what an action is about. The operators have a scope, so that a change adds one. */
  const MAKERS: Record<string, () => Promise<{ id: string; name?: string }>> = {
    operators: async () => app.operator(['read']),
    'app-credentials': async () => ({ id: (await app.service()).appId }),
    nodes: async () => ({ id: (await app.node()).nodeId }),
    users: async () => ({ id: (await app.user()).id }),
  };

  it.each([
    ['operators', 'rotate', 'admin.operator.rotated', { overlap_hours: '24' }],
    ['operators', 'change', 'admin.operator.updated', { scopes: 'read nodes' }],
    ['operators', 'revoke', 'admin.operator.revoked', {}],
    ['app-credentials', 'rotate', 'admin.app_credential.rotated', { overlap_hours: '24' }],
    ['app-credentials', 'change', 'admin.app_credential.updated', { scopes: 'write', for_users: 'false' }],
    ['app-credentials', 'revoke', 'admin.app_credential.revoked', {}],
    ['nodes', 'rotate', 'admin.node.rotated', { overlap_hours: '24' }],
    ['nodes', 'change', 'admin.node.updated', { room: 'hall', name: 'x' }],
    ['nodes', 'revoke', 'admin.node.revoked', {}],
    ['users', 'reset-password', 'admin.user.password_reset_issued', {}],
  ])('needs it on /%s to %s', async (path, action, event, fields) => {
    const { id: subject, name } = await MAKERS[path]!();
    const browser = await Browser.logIn(app);
    app.clock.advance({ minutes: 6 });
    const address = `/console/${path}/${subject}/${action}`;
    const sent = { ...(name !== undefined && { name }), ...fields };
    const { status, text } = await browser.submit(address, sent);
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining(LABEL) as string });
    expect(await recorded(app, { subject, event })).toEqual([]);
    expect((await browser.submit(address, { ...sent, key: ADMIN_KEY })).status).toBeLessThan(400);
    expect(await recorded(app, { subject, event })).toHaveLength(1);
  });

  it('needs it to change the role of a member', async () => {
    const { id: user_id } = await app.user();
    const { householdId } = await app.node();
    await app.admin.post(`/households/${householdId}/members`, { user_id, role: 'member' }).expect(201);
    const browser = await Browser.logIn(app);
    app.clock.advance({ minutes: 6 });
    const path = `/console/households/${householdId}/members/${user_id}/role`;
    const { status, text } = await browser.submit(path, { role: 'admin' });
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining(LABEL) as string });
    const readRole = async () =>
      (await app.admin.get(`/households/${householdId}/members`).expect(200)).body as unknown;
    expect(await readRole()).toMatchObject({ items: [{ role: 'member' }] });
    expect((await browser.submit(path, { role: 'admin', key: ADMIN_KEY })).status).toBe(303);
    expect(await readRole()).toMatchObject({ items: [{ role: 'admin' }] });
  });

  it('does not ask again in a form that is refused for another field, nor to disable a user', async () => {
    const { id } = await app.user();
    const browser = await Browser.logIn(app);
    app.clock.advance({ minutes: 6 });
    expect((await browser.get(`/console/users/${id}/disable`).expect(200)).text).not.toContain(LABEL);
    expect((await browser.submit(`/console/users/${id}/disable`)).status).toBe(303);
    const form = await browser.readForm('/console/users/new', '/console/users');
    const refused = await browser.send('/console/users', { ...form, email: 'x', key: ADMIN_KEY }).expect(400);
    expect(refused.text).not.toContain(LABEL);
  });

  it('needs it for a revocation of many', async () => {
    const { nodeId } = await app.node();
    const browser = await Browser.logIn(app);
    app.clock.advance({ minutes: 6 });
    const list = await browser.readForm('/console/nodes', '/console/nodes/choose');
    const { text } = await browser.send('/console/nodes/choose', { ...list, ids: nodeId }).expect(200);
    expect(text).toContain(LABEL);
    const form = /name="form" value="([^"]*)"/.exec(text.slice(text.indexOf('action="/console/nodes/chosen"')))![1]!;
    await browser.send('/console/nodes/chosen', { form, ids: nodeId }).expect(400);
    expect((await app.admin.get(`/nodes/${nodeId}`).expect(200)).body).toMatchObject({ revoked_at: null });
    await browser.send('/console/nodes/chosen', { form, ids: nodeId, key: ADMIN_KEY }).expect(303);
  });

  it('takes neither a wrong key nor that of another operator, and counts the wrong one', async () => {
    const { key } = await app.operator(['users']);
    const { key: other } = await app.operator(['users']);
    const { id, browser, path, name } = await openOldPage(key);
    expect((await browser.submit(path, { name, key: other })).status).toBe(400);
    expect((await browser.submit(path, { name, key: 'x'.repeat(43) })).status).toBe(401);
    expect(app.log.events('admin.key.refused')).toMatchObject([{ reason: 'wrong_key' }]);
    expect(await isThere(id)).toBe(true);
    expect((await browser.submit(path, { name, key })).status).toBe(303);
  });
});
