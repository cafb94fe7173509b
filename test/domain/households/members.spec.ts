import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { accept, Home } from '../../support/home.js';
import { Owner, WRONG } from '../../support/owner.js';
import { countByStatus } from '../../support/throttled.js';
import { useApp } from '../../support/use-app.js';

describe('a household and its members', () => {
  const app = useApp({ variables: { HOUSEHOLD_NODE_TARGETS: 'lights' } });

  it('begins with its maker as the admin, under an id that the caller cannot choose', async () => {
    const owner = await Owner.of(app);
    expectInvalid(await owner.as(app.post('/api/v0/households', { name: 'home', id: randomUUID() })), '/id');
    const made = await owner.as(app.post('/api/v0/households', { name: 'home' })).expect(201);
    const { id } = made.body as { id: string };
    expect(made.body).toMatchObject({ name: 'home', role: 'admin' });
    expect(made.headers.location).toBe(`/api/v0/households/${id}`);
    const { body } = await owner.as(app.get('/api/v0/households')).expect(200);
    expect(body).toEqual({ items: [made.body], next_cursor: null });
    expect((await owner.as(app.get(`/api/v0/households/${id.toUpperCase()}`)).expect(200)).body).toEqual(made.body);
  });

  it('lists households and members in pages', async () => {
    const home = await Home.of(app);
    const [one, two] = [await home.member(), await home.member()];
    const { body: first } = await home.get(one, '/members?limit=2').expect(200);
    const page = first as { items: { id: string }[]; next_cursor: string };
    const { body: second } = await home.get(one, `/members?limit=2&cursor=${page.next_cursor}`).expect(200);
    const all = [...page.items, ...(second as typeof page).items];
    expect(all.map(({ id }) => id)).toEqual([home.admin, one, two].map(({ user }) => user.id).sort());
    expect(all).toContainEqual({ id: one.user.id, email: one.user.email, role: 'member', since: expect.any(String) });
    await Home.of(app, home.admin);
    const { body } = await home.admin.as(app.get('/api/v0/households?limit=1')).expect(200);
    expect((body as typeof page).next_cursor).not.toBeNull();
  });

  it('is not found by who is no member, for every route and every form of an id', async () => {
    const [home, invited] = [await Home.of(app), await Owner.of(app)];
    const { body: invitation } = await home.invite().expect(201);
    const { nodeId } = await app.node(home.id);
    for (const id of [
      home.id,
      home.id.toUpperCase(),
      randomUUID(),
      'x',
      '%5B%22a%22%5D',
      '[a]',
      `${home.id},${home.id}`,
    ]) {
      const [stranger, path] = [await Owner.of(app), `/api/v0/households/${id}`];
      for (const call of [
        app.get(path),
        app.patch(path, { name: 'mine' }),
        app.delete(path),
        app.get(`${path}/members`),
        app.patch(`${path}/members/${stranger.user.id}`, { role: 'admin' }),
        app.delete(`${path}/members/${stranger.user.id}`),
        app.delete(`${path}/members/${home.admin.user.id}`),
        app.post(`${path}/invitations`, {}),
        app.get(`${path}/invitations`),
        app.delete(`${path}/invitations/${(invitation as { id: string }).id}`),
        app.get(`${path}/nodes`),
        app.post(`${path}/enrolments`, { room: 'hall', name: 'lamp' }),
        app.delete(`${path}/nodes/${nodeId}`),
      ])
        expectProblem(await stranger.as(call), problems.notFound);
    }
    expect(await home.roleOf(home.admin)).toBe('admin');
    await accept(app, invited, (invitation as { code: string }).code).expect(200);
  });

  it('refuses a member what an admin alone may do', async () => {
    const home = await Home.of(app);
    const [member, other, { nodeId }] = [await home.member(), await home.member(), await app.node(home.id)];
    const { body: invitation } = await home.invite().expect(201);
    for (const call of [
      home.rename(member, 'mine'),
      home.deleteBy(member),
      home.setRole(member, member, 'admin'),
      home.setRole(member, home.admin, 'member'),
      home.remove(member, other),
      home.invite(member),
      home.get(member, '/invitations'),
      home.cancel(member, (invitation as { id: string }).id),
      home.enrolment(member),
      home.revokeNode(member, nodeId),
    ])
      expectProblem(await call, problems.missingRole);
    for (const path of ['', '/members', '/nodes']) await home.get(member, path).expect(200);
  });

  it('asks for the password where a stolen access token would expel people, and changes nothing without it', async () => {
    const home = await Home.of(app);
    const [admin, member] = [await home.secondAdmin(), await home.member()];
    const acts = [
      (password: string | null) => home.setRole(admin, member, 'admin', password),
      (password: string | null) => home.setRole(admin, home.admin, 'member', password),
      (password: string | null) => home.remove(admin, home.admin, password),
      (password: string | null) =>
        admin.as(app.delete(`/api/v0/households/${home.id}`)).send(password ? { password } : {}),
    ];
    for (const act of acts) {
      expectInvalid(await act(null), '/password');
      expectProblem(await act(WRONG), problems.wrongPassword);
    }
    expect([await home.roleOf(home.admin), await home.roleOf(member)]).toEqual(['admin', 'member']);
    for (const act of acts) expect((await act('a long enough passphrase')).status).toBe(403);
    await home.remove(admin, member, null).expect(204);
    await home.setRole(admin, home.admin, 'member').expect(200);
    await home.deleteBy(admin).expect(204);
  });

  it.each([
    ['removal', (home: Home, person: Owner) => home.remove(home.admin, person), undefined],
    ['demotion', (home: Home, person: Owner) => home.setRole(home.admin, person, 'member'), 'member'],
    ['departure', (home: Home, person: Owner) => home.leave(person), undefined],
    ['deletion of the household', (home: Home) => home.deleteBy(home.admin), undefined],
  ])('answers a %s when no service is told the former role any more', async (_what, act, role) => {
    const home = await Home.of(app);
    const person = await home.secondAdmin();
    await app.database.query('DELETE FROM credential_changes');
    const { status } = await act(home, person);
    expect(status).toBeLessThan(300);
    expect(await home.roleOf(person)).toBe(role);
    const changes = await app.database.query(
      `SELECT 1 FROM credential_changes WHERE kind = 'user' AND credential_id = $1`,
      [person.user.id],
    );
    expect(changes).toHaveLength(1);
  });

  it('keeps an active admin while it has other members', async () => {
    const home = await Home.of(app);
    const member = await home.member();
    expectProblem(await home.leave(home.admin), problems.lastAdmin);
    expectProblem(await home.setRole(home.admin, home.admin, 'member'), problems.lastAdmin);
    expectProblem(await home.admin.deleteAccount(), problems.lastAdmin);
    await home.setRole(home.admin, member, 'admin').expect(200);
    await app.admin.patch(`/users/${member.user.id}`, { is_active: false }).expect(200);
    expectProblem(await home.leave(home.admin), problems.lastAdmin);
    await app.admin.patch(`/users/${member.user.id}`, { is_active: true }).expect(200);
    await home.leave(home.admin).expect(204);
    const alone = await Home.of(app);
    await alone.leave(alone.admin).expect(204);
    const other = await Home.of(app);
    await other.admin.deleteAccount().expect(204);
  });

  it.each([
    ['leave', (home: Home, who: Owner) => home.leave(who)],
    ['step down', (home: Home, who: Owner) => home.setRole(who, who, 'member')],
    ['delete their accounts', (_home: Home, who: Owner) => who.deleteAccount()],
  ])('keeps one of two admins who %s at the same time', async (_what, act) => {
    for (let round = 0; round < 3; round += 1) {
      const home = await Home.of(app);
      const other = await home.secondAdmin();
      await home.member();
      const answers = await Promise.all([home.admin, other].map((who) => act(home, who)));
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(1);
      const [row] = await app.database.query<{ count: number }>(
        `SELECT count(*)::integer FROM household_members WHERE household_id = $1 AND role = 'admin'`,
        [home.id],
      );
      expect(row!.count).toBe(1);
    }
  });

  it('is left by a user whom an operator deletes, with an event for each membership', async () => {
    const [home, other] = [await Home.of(app), await Home.of(app)];
    const member = await home.member();
    await accept(app, member, await other.code()).expect(200);
    const { headers } = await app.admin.delete(`/users/${member.user.id}`).expect(204);
    const rows = (await recorded(app)).filter((row) => row.request_id === headers['x-request-id']);
    expect(rows.map(({ event }) => event).sort()).toEqual([
      'admin.user.deleted',
      'household.member.removed',
      'household.member.removed',
    ]);
    const removed = rows.filter(({ event }) => event === 'household.member.removed');
    expect(removed.map(({ subject }) => subject).sort()).toEqual([home.id, other.id].sort());
    expect(removed[0]!.details).toMatchObject({ user_id: member.user.id });
  });

  it('is joined or not, and left whole, when an account is deleted while it joins', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [home, first, joiner] = [await Home.of(app), await Home.of(app), await Owner.of(app)];
      await accept(app, joiner, await first.code()).expect(200);
      const code = await home.code();
      await Promise.all([joiner.deleteAccount().expect(204), accept(app, joiner, code)]);
      const left = await app.database.query('SELECT 1 FROM household_members WHERE user_id = $1', [joiner.user.id]);
      expect(left).toEqual([]);
    }
  });

  it('is left by each member when it is deleted, with an event for each', async () => {
    const home = await Home.of(app);
    const members = [await home.member(), await home.member()];
    await home.deleteBy(home.admin).expect(204);
    const removed = await recorded(app, { event: 'household.member.removed', subject: home.id });
    expect(removed.map(({ details }) => [details.user_id, details.before]).sort()).toEqual(
      [[home.admin.user.id, { role: 'admin' }], ...members.map(({ user }) => [user.id, { role: 'member' }])].sort(),
    );
  });

  it('is not deleted with live nodes, unless they are revoked with it', async () => {
    const home = await Home.of(app);
    const [node, other] = [await app.node(home.id), await app.node(home.id)];
    expectProblem(await home.deleteBy(home.admin), problems.householdHasNodes);
    await app.validateNode(node.header).expect(200);
    const { body } = await app.admin.post('/enrolments', { household_id: home.id, room: 'hall', name: 'lamp' });
    await home.deleteBy(home.admin, undefined, '?revoke_nodes=true').expect(204);
    for (const { header } of [node, other])
      expectProblem(await app.validateNode(header), problems.invalidNodeCredentials);
    const { code } = body as { code: string };
    expectProblem(await app.post('/api/v0/nodes/enrol', { code }), problems.notFound);
    expectProblem(await home.get(home.admin), problems.notFound);
    expect((await app.admin.get(`/nodes/${node.nodeId}`).expect(200)).body).toMatchObject({ household_id: home.id });
  });

  it('is one of 32 of a user at most, also when they are made or joined at the same time', async () => {
    const owner = await Owner.of(app);
    for (let made = 0; made < 28; made += 1) await Home.of(app, owner);
    const hosts = await Promise.all(Array.from({ length: 6 }, () => Home.of(app)));
    const codes = await Promise.all(hosts.map((host) => host.code()));
    const makes = Array.from({ length: 4 }, () => owner.as(app.post('/api/v0/households', { name: 'more' })));
    const answers = await Promise.all([...makes, ...codes.map((code) => accept(app, owner, code))]);
    const [row] = await app.database.query<{ count: number }>(
      'SELECT count(*)::integer FROM household_members WHERE user_id = $1',
      [owner.user.id],
    );
    expect(row!.count).toBe(32);
    const refused = answers.filter(({ status }) => status === 409);
    expect(refused).toHaveLength(6);
    for (const answer of refused) expectProblem(answer, problems.tooManyHouseholds);
  });

  it('is one of 100 of a user at most for an operator, whose answers list them all', async () => {
    const owner = await Owner.of(app);
    const { id: user_id } = owner.user;
    await app.database.query(
      `WITH made AS (INSERT INTO households (id, created_at, updated_at)
         SELECT gen_random_uuid(), now(), now() FROM generate_series(1, 98) RETURNING id)
       INSERT INTO household_members (household_id, user_id, role, since) SELECT id, $1, 'member', now() FROM made`,
      [user_id],
    );
    const homes = await Promise.all(Array.from({ length: 4 }, () => Home.of(app)));
    const answers = await Promise.all(
      homes.map(({ id }) => app.admin.post(`/households/${id}/members`, { user_id, role: 'member' })),
    );
    expect(countByStatus(answers)).toEqual({ 201: 2, 409: 2 });
    for (const answer of answers.filter(({ status }) => status === 409))
      expectProblem(answer, problems.tooManyHouseholds);
    const { body } = await owner.as(app.post('/internal/validate-user')).expect(200);
    expect((body as { households: unknown[] }).households).toHaveLength(100);
    const { headers } = await owner.as(app.get('/internal/authorize/user')).expect(200);
    expect((headers['x-auth-households'] as string).split(',')).toHaveLength(100);
  });

  it('lets a user act 60 times an hour', async () => {
    const home = await Home.of(app);
    const answers = await Promise.all(
      Array.from({ length: 62 }, (_, index) => home.rename(home.admin, `home ${index}`)),
    );
    expect(countByStatus(answers)).toEqual({ 200: 59, 429: 3 });
    await home.get(home.admin).expect(200);
  });
});
