import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { accept, Home } from '../../support/home.js';
import { Owner } from '../../support/owner.js';
import { countByStatus } from '../../support/throttled.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

interface Page {
  readonly items: { readonly id: string; readonly state?: string }[];
  readonly next_cursor: string | null;
}

const app = useApp({ variables: { ...UNLEASED, TRUST_PROXY: '1' } });

describe('an operator', () => {
  const list = async (query: string): Promise<string[]> =>
    ((await app.admin.get(`/households?${query}`).expect(200)).body as Page).items.map(({ id }) => id);

  it('finds households by name and by member, and sees how many people are in them', async () => {
    const home = await Home.of(app);
    await home.rename(home.admin, 'Sea View').expect(200);
    const member = await home.member();
    const { body } = await app.admin.get(`/households/${home.id.toUpperCase()}`).expect(200);
    expect(body).toMatchObject({ id: home.id, name: 'Sea View', members: 2, active_admins: 1 });
    expect(await list('search=sea%20v')).toEqual([home.id]);
    expect(await list('search=%25')).toEqual([]);
    expect(await list(`user_id=${member.user.id}`)).toEqual([home.id]);
    const { body: people } = await app.admin.get(`/households/${home.id}/members`).expect(200);
    const shown = { id: member.user.id, email: member.user.email, role: 'member', is_active: true };
    expect((people as Page).items).toContainEqual({ ...shown, since: expect.any(String) as string });
    for (const id of [randomUUID(), 'x']) expectProblem(await app.admin.get(`/households/${id}`), problems.notFound);
  });

  it('renames a household that a node made, adds people to it, changes their role and removes them', async () => {
    const [{ householdId: id }, person] = [await app.node(), await Owner.of(app)];
    const path = `/households/${id}`;
    expect((await app.admin.get(path).expect(200)).body).toMatchObject({ name: null, members: 0 });
    await app.admin.patch(path, { name: 'flat' }).expect(200);
    const added = { user_id: person.user.id, role: 'admin' };
    await app.admin.post(`${path}/members`, added).expect(201);
    expectProblem(await app.admin.post(`${path}/members`, added), problems.alreadyMember);
    expectProblem(await app.admin.post(`${path}/members`, { ...added, user_id: randomUUID() }), problems.notFound);
    expectInvalid(await app.admin.post(`${path}/members`, { ...added, role: 'owner' }), '/role');
    const households = async () =>
      ((await person.as(app.post('/internal/validate-user')).expect(200)).body as { households: object }).households;
    expect(await households()).toEqual([{ id, role: 'admin' }]);
    await app.admin.patch(`${path}/members/${person.user.id}`, { role: 'member' }).expect(200);
    expect(await households()).toEqual([{ id, role: 'member' }]);
    await app.admin.delete(`${path}/members/${person.user.id}`).expect(204);
    expect(await households()).toEqual([]);
    expectProblem(await app.admin.delete(`${path}/members/${person.user.id}`), problems.notFound);
    expectProblem(await app.admin.delete(path), problems.householdHasNodes);
    await app.admin.delete(`${path}?revoke_nodes=true`).expect(204);
    expectProblem(await app.admin.get(path), problems.notFound);
  });

  it('manages a household whose id is a UUID of any version, and pages past it', async () => {
    const [{ householdId: id }, person] = [await app.node('00000000-0000-0000-0000-0000000000f1'), await Owner.of(app)];
    await app.node('00000000-0000-0000-0000-0000000000f2');
    const first = (await app.admin.get('/households?sort=created_at_desc&limit=1').expect(200)).body as Page;
    expect(await list(`sort=created_at_desc&limit=1&cursor=${first.next_cursor}`)).toEqual([id]);
    const path = `/households/${id}`;
    await app.admin.post(`${path}/members`, { user_id: person.user.id, role: 'admin' }).expect(201);
    await person.as(app.patch(`/api/v0${path}`, { name: 'flat' })).expect(200);
    expect((await app.admin.get(path).expect(200)).body).toMatchObject({ name: 'flat', members: 1 });
    await app.admin.delete(`${path}?revoke_nodes=true`).expect(204);
    expectProblem(await app.admin.get(path), problems.notFound);
  });

  it('meets the limit of 100 members alone, also with parallel calls, and may leave a household without an admin', async () => {
    const home = await Home.of(app);
    await app.database.query(
      `WITH made AS (INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
         SELECT gen_random_uuid(), 'many-' || n || '@example.org', '!', true, now(), now() FROM generate_series(1, 97) AS n
         RETURNING id)
       INSERT INTO household_members SELECT $1, id, 'member', now() FROM made`,
      [home.id],
    );
    const people = await Promise.all(Array.from({ length: 4 }, () => app.user()));
    const add = ({ id }: { id: string }) =>
      app.admin.post(`/households/${home.id}/members`, { user_id: id, role: 'member' });
    expect(countByStatus(await Promise.all(people.map(add)))).toEqual({ 201: 2, 409: 2 });
    await app.admin.patch(`/households/${home.id}/members/${home.admin.user.id}`, { role: 'member' }).expect(200);
    expect(await list('without_admin=true')).toEqual([home.id]);
  });

  it('finds the households whose last active admin was disabled or deleted', async () => {
    const [home, other, empty] = [await Home.of(app), await Home.of(app), await app.node()];
    await home.member();
    await other.member();
    const before = await list('without_admin=true');
    await app.admin.patch(`/users/${home.admin.user.id}`, { is_active: false }).expect(200);
    await app.admin.delete(`/users/${other.admin.user.id}`).expect(204);
    const found = (await list('without_admin=true')).filter((id) => !before.includes(id));
    expect(found.sort()).toEqual([home.id, other.id].sort());
    expect(found).not.toContain(empty.householdId);
  });

  it('finds the households without members, also those that the last one left', async () => {
    const [home, left, empty] = [await Home.of(app), await Home.of(app), await app.node()];
    await app.admin.delete(`/households/${left.id}/members/${left.admin.user.id}`).expect(204);
    const found = await list('without_members=true&limit=100');
    expect([home.id, left.id, empty.householdId].map((id) => found.includes(id))).toEqual([false, true, true]);
    await app.admin.patch(`/households/${home.id}/members/${home.admin.user.id}`, { role: 'member' }).expect(200);
    expect(await list('without_members=true&limit=100')).toEqual(found);
    expect(await list('without_members=true&without_admin=true')).toEqual([]);
  });

  it('lists and cancels invitations, and lists the enrolments of a household', async () => {
    const home = await Home.of(app);
    const { id, code } = (await home.invite().expect(201)).body as { id: string; code: string };
    const query = `/invitations?open=true&household_id=${home.id}`;
    expect(((await app.admin.get(query).expect(200)).body as Page).items).toMatchObject([{ id, state: 'open' }]);
    await app.admin.delete(`/invitations/${id}`).expect(204);
    await app.admin.delete(`/invitations/${id}`).expect(204);
    expect(((await app.admin.get(query).expect(200)).body as Page).items).toEqual([]);
    expectProblem(await accept(app, await Owner.of(app), code), problems.notFound);
    expectProblem(await app.admin.delete(`/invitations/${randomUUID()}`), problems.notFound);
    const enrolment = { household_id: home.id, room: 'hall', name: 'lamp' };
    await app.admin.post('/enrolments', enrolment).expect(201);
    await app.admin.post('/enrolments', { ...enrolment, household_id: randomUUID() }).expect(201);
    const { body } = await app.admin.get(`/enrolments?open=true&household_id=${home.id}`).expect(200);
    expect((body as Page).items).toMatchObject([{ ...enrolment, issued_by: null }]);
  });

  it('reads with the scope read, and changes with the scope nodes', async () => {
    const [home, reader, other] = [await Home.of(app), await app.operator(['read']), await app.operator(['users'])];
    await reader.as().get(`/households/${home.id}/members`).expect(200);
    await reader.as().patch(`/households/${home.id}`, { name: 'x' }).expect(403);
    await other.as().get('/households').expect(403);
    await (await app.operator(['nodes'])).as().patch(`/households/${home.id}`, { name: 'x' }).expect(200);
  });
});

describe('a service', () => {
  let headers: Record<string, string>;

  beforeAll(async () => {
    ({ headers } = await app.service(undefined, 'auth'));
  });

  it('lists the members of a household in pages', async () => {
    const home = await Home.of(app);
    const member = await home.member();
    const path = `/internal/households/${home.id}/members`;
    const { body: first } = await app.get(`${path}?limit=1`).set(headers).expect(200);
    const { next_cursor } = first as Page;
    const { body: second } = await app.get(`${path}?limit=1&cursor=${next_cursor}`).set(headers).expect(200);
    const all = [...(first as Page).items, ...(second as Page).items];
    expect(all).toEqual(
      [
        { id: home.admin.user.id, role: 'admin' },
        { id: member.user.id, role: 'member' },
      ].sort((one, other) => (one.id < other.id ? -1 : 1)),
    );
    expectProblem(await app.get(`/internal/households/${randomUUID()}/members`).set(headers), problems.notFound);
    expectProblem(await app.get(`${path}?household=1`).set(headers), problems.validationFailed);
    expectProblem(await app.post('/internal/validate-node?limit=1'), problems.validationFailed);
  });

  it('looks up to 100 users up by their ids', async () => {
    const [user, disabled, unknown] = [await app.user(), await app.user(), randomUUID()];
    await app.admin.patch(`/users/${disabled.id}`, { is_active: false }).expect(200);
    const lookUp = (ids: unknown[]) => app.post('/internal/users/lookup', { ids }).set(headers);
    const { body } = await lookUp([user.id.toUpperCase(), user.id, disabled.id, unknown]).expect(200);
    expect(body).toEqual({
      users: [
        { id: user.id, email: user.email, is_active: true },
        { id: disabled.id, email: disabled.email, is_active: false },
      ],
      missing: [unknown],
    });
    await lookUp(Array.from({ length: 100 }, () => randomUUID())).expect(200);
    for (const ids of [[], ['x'], Array.from({ length: 101 }, () => randomUUID())])
      expectProblem(await lookUp(ids), problems.validationFailed);
  });
});
