import { ADMIN_KEY } from '../support/settings.js';
import { Browser } from '../support/console-browser.js';
import { useApp } from '../support/use-app.js';

const LABEL = 'Your key, again';

describe('an act of the console that cannot be undone', () => {
  const app = useApp({ variables: { CONSOLE: 'on' } });

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
