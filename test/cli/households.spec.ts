import { useCli } from '../support/cli.js';
import { Home } from '../support/home.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

describe('platform-auth households', () => {
  const app = useApp({ variables: { ...UNLEASED, TRUST_PROXY: '1' } });
  const cli = useCli(app);
  let home: Home;

  beforeAll(async () => {
    home = await Home.of(app);
  });

  const listIds = async (filter: string): Promise<string[]> =>
    (await cli.json<{ items: { id: string }[] }>(`households list ${filter}`)).items.map(({ id }) => id);

  it('lists households by name, by member, without an admin and without members, as a table and as JSON', async () => {
    await home.rename(home.admin, 'Sea View').expect(200);
    const [other, { id, email }] = [await Home.of(app), home.admin.user];
    await cli.ok(`households set-role ${other.id} ${other.admin.user.id} member`);
    expect(await cli.ok('households list --search sea')).toMatch(
      new RegExp(`│ id .*│ name .*│ members │ active_admins │.*\\n│ ${home.id} │ Sea View │ 1 +│ 1 +│`),
    );
    for (const filter of ['--search view', `--member ${email}`, `--member ${id}`])
      expect({ filter, ids: await listIds(filter) }).toEqual({ filter, ids: [home.id] });
    expect(await listIds('--without-admin')).toEqual([other.id]);
    const { householdId } = await app.node();
    expect(await listIds('--without-members')).toEqual([householdId]);
    expect(await cli.fails('households list --member nobody@example.org')).toContain('No account has the e-mail');
  });

  it('shows a household with its people, and renames it', async () => {
    const { email } = home.admin.user;
    expect(await cli.ok('households', 'rename', home.id, 'Sea Side')).toBe(
      `Household ${home.id} has the name Sea Side now.\n`,
    );
    expect(await cli.ok(`households show ${home.id}`)).toMatch(
      new RegExp(`name +Sea Side\\n[^]*members +1\\n[^]*│ ${email} +│ admin │`),
    );
    const shown = await cli.json(`households show ${home.id}`);
    expect(shown).toMatchObject({ members: 1, people: [{ email, role: 'admin', is_active: true }] });
    expect(await cli.ok('audit --event household.renamed --limit 1')).toMatch(
      /household\.renamed +│ admin +│ Sea Side /,
    );
  });

  it('adds a member by e-mail address or id, changes the role, and removes the member', async () => {
    const person = await (await Home.of(app)).member();
    const { id, email } = person.user;
    const said = (role: string) => `${email} is ${role} of household ${home.id}.\n`;
    expect(await cli.ok(`households add-member ${home.id} ${email}`)).toBe(said('member'));
    expect(await home.roleOf(person)).toBe('member');
    expect(await cli.fails(`households add-member ${home.id} ${id} --role admin`)).toMatch(/already_member, 409/);
    expect(await cli.ok(`households set-role ${home.id} ${id} admin`)).toBe(said('admin'));
    expect(await home.roleOf(person)).toBe('admin');
    const removed = await cli.json(`households remove-member ${home.id} ${email}`);
    expect(removed).toEqual({ id: home.id, user_id: id, removed: true });
    expect(await home.roleOf(person)).toBeUndefined();
    expect(await cli.fails(`households remove-member ${home.id} ${id}`)).toMatch(/not_found, 404/);
  });

  it('deletes a household with a confirmation, and its live nodes only where that is said', async () => {
    const { householdId: id, nodeId } = await app.node();
    expect(await cli.fails(`households delete ${id}`)).toBe(
      `This deletes the household ${id} with its 0 memberships permanently. Add --yes to confirm. It was not done.\n`,
    );
    expect(await cli.fails(`households delete ${id} --revoke-nodes`)).toContain('and revokes its 1 live nodes');
    expect(await cli.fails(`households delete ${id} --yes`)).toMatch(/household_has_nodes, 409/);
    expect(await cli.ok(`households delete ${id} --revoke-nodes --yes`)).toBe(`Household ${id} is deleted.\n`);
    const { body } = await app.admin.get(`/nodes/${nodeId}`).expect(200);
    expect(body).toMatchObject({ revoked_at: expect.any(String) as string });
    expect(await cli.fails(`households show ${id}`)).toMatch(/not_found, 404/);
  });

  it.each(['set-role x y owner', 'add-member x y --role owner', 'rename x', 'delete'])(
    'exits with 2 for: %s',
    async (line) => {
      expect((await cli.run(`households ${line}`)).code).toBe(2);
    },
  );
});
