import { randomUUID } from 'node:crypto';
import { Browser } from '../support/console-browser.js';
import { Home } from '../support/home.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import type { Owner } from '../support/owner.js';

const ADDRESS = '/console/households';

describe('/console/households', () => {
  const app = useApp({
    variables: { ...UNLEASED, CONSOLE: 'on', TRUST_PROXY: '1', HOUSEHOLD_NODE_TARGETS: 'recipes' },
  });
  let [browser, home]: [Browser, Home] = [undefined!, undefined!];
  let member: Owner;
  beforeAll(async () => {
    browser = await Browser.logIn(app);
    home = await Home.of(app);
    member = await home.member();
  });

  const show = async (path: string): Promise<string> => (await browser.get(path).expect(200)).text;

  const search = async (fields: Record<string, string>) =>
    browser.send(`${ADDRESS}/search`, { ...(await browser.readForm(ADDRESS, `${ADDRESS}/search`)), ...fields });

  it('finds households by name, by member, without an admin and without members, and puts no e-mail address in a URL', async () => {
    await home.rename(home.admin, 'Sea View').expect(200);
    const other = await Home.of(app);
    await app.admin.patch(`/households/${other.id}/members/${other.admin.user.id}`, { role: 'member' }).expect(200);
    const { householdId } = await app.node();
    const { id, email } = member.user;
    for (const [fields, location, shown] of [
      [{ search: 'sea v' }, `${ADDRESS}?search=sea+v`, home],
      [{ user_id: ` ${email}` }, `${ADDRESS}?user_id=${id}`, home],
      [{ without_admin: 'true' }, `${ADDRESS}?without_admin=true`, other],
      [{ without_members: 'true' }, `${ADDRESS}?without_members=true`, { id: householdId }],
    ] as const) {
      const { status, headers } = await search(fields);
      expect({ status, location: headers.location }).toEqual({ status: 303, location });
      const found = [...(await show(location)).matchAll(/<a href="\/console\/households\/([\w-]{36})"/g)];
      expect(found.map(([, each]) => each)).toEqual([shown.id]);
    }
    expect((await browser.get(`${ADDRESS}?search=${home.id}`).expect(303)).headers.location).toBe(
      `${ADDRESS}/${home.id}`,
    );
    const refused = await search({ user_id: 'nobody@example.org' });
    expect({ status: refused.status, text: refused.text }).toEqual({
      status: 400,
      text: expect.stringMatching(/value="nobody@example.org".*is not the address of a user/s) as string,
    });
  });

  it('sorts households by the moment they were made, and keeps the order when a filter changes', async () => {
    const { householdId: newest } = await app.node();
    const toIds = (text: string): (string | undefined)[] =>
      [...text.matchAll(/<a href="\/console\/households\/([\w-]{36})"/g)].map(([, id]) => id);
    const text = await show(ADDRESS);
    expect(text).toContain(`aria-sort="ascending"><a href="${ADDRESS}?sort=created_at_desc">Since`);
    expect(toIds(text).at(-1)).toBe(newest);
    const newestFirst = await show(`${ADDRESS}?sort=created_at_desc`);
    expect(toIds(newestFirst)).toEqual(toIds(text).toReversed());
    const form = await browser.readForm(`${ADDRESS}?sort=created_at_desc`, `${ADDRESS}/search`);
    const { headers } = await browser.send(`${ADDRESS}/search`, { ...form, without_members: 'true' });
    expect(new URL(headers.location!, 'http://console').searchParams.get('sort')).toBe('created_at_desc');
  });

  it('shows people, devices, open codes and the last events, with links to users and nodes, which link back', async () => {
    const { nodeId } = await app.node(home.id);
    await home.invite().expect(201);
    await home.enrolment().expect(201);
    const page = `${ADDRESS}/${home.id}`;
    const text = await show(page);
    const toNamed = ({ user: { id, email } }: Owner): string =>
      `<a href="/console/users/${id}"><bdi>${email}</bdi></a> <span class="id"><code>${id}</code> ` +
      `<button type="button" class="outline copy" data-copy="true" aria-label="Copy ${id}">Copy</button></span>`;
    const issuer = toNamed(home.admin);
    for (const shown of [
      `<a href="/console/users/${member.user.id}">${member.user.email}</a></td><td>member</td><td><time`,
      `<a href="/console/nodes/${nodeId}"><bdi>kitchen/speaker</bdi></a>`,
      `<td>Invitation</td><td><bdi>a person</bdi></td><td>${issuer}</td>`,
      `<td>Enrolment</td><td><bdi>hall/lamp</bdi></td><td>${issuer}</td>`,
      '<b>household.member.added</b>',
      `about ${toNamed(member)}`,
    ])
      expect(text).toContain(shown);
    for (const from of [`/console/users/${member.user.id}`, `/console/nodes/${nodeId}`])
      expect(await show(from)).toContain(`<a href="${page}"`);
  });

  it('cancels an open code, which is unknown afterwards', async () => {
    const own = await Home.of(app);
    await own.invite().expect(201);
    await own.enrolment().expect(201);
    const page = `${ADDRESS}/${own.id}`;
    for (const kind of ['invitation', 'enrolment']) {
      const [path] = new RegExp(`${page}/codes/${kind}/[\\w-]+`).exec(await show(page)) ?? [];
      const { headers } = await browser.submit(path!);
      expect(headers.location).toBe(`${page}?done=cancel`);
      const text = await show(headers.location!);
      expect(text).toContain('Done: cancellation of a code.');
      expect(text).not.toContain(path);
      await browser.get(path!).expect(404);
      await browser.get(path!.replace(own.id, home.id)).expect(404);
    }
    expect(await show(page)).toContain('Open codes: none');
  });

  it('renames a household, adds a person by e-mail address or id, changes the role and removes them', async () => {
    const [own, person] = [await Home.of(app), await (await Home.of(app)).member()];
    const page = `${ADDRESS}/${own.id}`;
    expect(await show(`${page}/rename`)).toContain('value="home"');
    for (const name of ['home', 'flat'])
      expect((await browser.submit(`${page}/rename`, { name })).headers.location).toBe(`${page}?done=rename`);
    expect(await show(page)).toContain('<h1>flat</h1>');
    for (const user_id of [randomUUID(), 'x', 'nobody@example.org']) {
      const { status, text } = await browser.submit(`${page}/add-member`, { user_id, role: 'member' });
      expect({ user_id, status, isKept: text.includes(`value="${user_id}"`) }).toEqual({
        user_id,
        status: 400,
        isKept: true,
      });
      expect(text).toMatch(/id="field-user_id-error"/);
    }
    const added = { user_id: person.user.email, role: 'admin' };
    expect((await browser.submit(`${page}/add-member`, added)).headers.location).toBe(`${page}?done=add-member`);
    expect(await own.roleOf(person)).toBe('admin');
    const again = await browser.submit(`${page}/add-member`, { ...added, user_id: person.user.id });
    expect({ status: again.status, text: again.text }).toEqual({
      status: 409,
      text: expect.stringContaining('The person is a member') as string,
    });
    const address = `${page}/members/${person.user.id}`;
    const outdated = await browser.readForm(`${address}/remove`);
    expect((await browser.submit(`${address}/role`, { role: 'owner' })).status).toBe(400);
    expect((await browser.submit(`${address}/role`, { role: 'member' })).headers.location).toBe(`${page}?done=role`);
    expect(await own.roleOf(person)).toBe('member');
    expect((await browser.send(`${address}/remove`, outdated).expect(409)).text).toContain('Changed meanwhile');
    expect((await browser.submit(`${address}/remove`)).headers.location).toBe(`${page}?done=remove`);
    expect(await own.roleOf(person)).toBeUndefined();
    await browser.get(`${address}/remove`).expect(404);
    expect(await show(`${page}/members/${own.admin.user.id}/remove`)).toContain('the only active admin');
    await browser.get(`${page}/members/${own.admin.user.id}/toString`).expect(404);
    await browser.get(`${ADDRESS}/new`).expect(404);
  });

  it('says how many people and devices a deletion concerns, wants the name typed, and revokes devices only when told', async () => {
    const own = await Home.of(app);
    const { nodeId } = await app.node(own.id);
    const page = `${ADDRESS}/${own.id}/delete`;
    expect(await show(page)).toContain('Members: 1. Live devices: 1.');
    const typed = await browser.submit(page, { name: 'another', revoke_nodes: 'true' });
    expect(typed.text).toContain('so nothing was changed');
    const kept = await browser.submit(page, { name: 'home', revoke_nodes: '' });
    expect({ status: kept.status, text: kept.text }).toEqual({
      status: 409,
      text: expect.stringContaining('The household has live nodes') as string,
    });
    expect((await browser.submit(page, { name: 'home', revoke_nodes: 'true' })).headers.location).toBe(
      `${ADDRESS}?done=delete`,
    );
    const { body } = await app.admin.get(`/nodes/${nodeId}`).expect(200);
    expect(body).toMatchObject({ revoked_at: expect.any(String) as string });
    await browser.get(`${ADDRESS}/${own.id}`).expect(404);
  });

  it('does not revoke a device with a household whose page was opened before the device was added', async () => {
    const home = await Home.of(app);
    const page = `/console/households/${home.id}/delete`;
    const opened = await browser.readForm(page);
    const { nodeId } = await app.node(home.id);
    const sent = { name: 'home', revoke_nodes: 'true' };
    expect((await browser.send(page, { ...opened, ...sent }).expect(409)).text).toContain('Changed meanwhile');
    expect((await app.admin.get(`/nodes/${nodeId}`).expect(200)).body).toMatchObject({ revoked_at: null });
    expect((await browser.submit(page, sent)).status).toBe(303);
  });

  it('offers no act to an operator who may only read', async () => {
    const reader = await Browser.logIn(app, (await app.operator(['read'])).key);
    const { text } = await reader.get(`${ADDRESS}/${home.id}`).expect(200);
    expect(text).not.toMatch(/Rename|Remove|Delete/);
    await reader.get(`${ADDRESS}/${home.id}/members/${member.user.id}/remove`).expect(403);
  });
});
