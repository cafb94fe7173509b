import request from 'supertest';
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { recorded } from '../../domain/audit/record.js';
import type { Device } from '../../support/test-app.js';
import { ADMIN_KEY, UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });
const registration = (more: object): object => ({ household_id: randomUUID(), room: 'hall', name: 'lamp', ...more });

describe('/api/v0/admin/nodes', () => {
  it('revokes several nodes with one call, each with an event of its own, and skips all others', async () => {
    const [one, two, gone, kept] = [await app.node(), await app.node(), await app.node(), await app.node()];
    await app.admin.delete(`/nodes/${gone.nodeId}`).expect(204);
    const ids = [one.nodeId.toUpperCase(), two.nodeId, gone.nodeId, randomUUID()];
    const { body, headers } = await app.admin.post('/nodes/revoke', { ids }).expect(200);
    expect((body as { revoked: string[] }).revoked.sort()).toEqual([one.nodeId, two.nodeId].sort());
    for (const { header } of [one, two, gone])
      expectProblem(await app.validateNode(header), problems.invalidNodeCredentials);
    await app.validateNode(kept.header).expect(200);
    for (const { nodeId: subject } of [one, two])
      expect(await recorded(app, { subject, event: 'admin.node.revoked' })).toMatchObject([
        { request_id: headers['x-request-id'], details: { before: { revoked_at: null } } },
      ]);
    expect((await app.admin.post('/nodes/revoke', { ids }).expect(200)).body).toEqual({ revoked: [] });
    const many = (count: number) => ({ ids: Array.from({ length: count }, () => randomUUID()) });
    await app.admin.post('/nodes/revoke', many(500)).expect(200);
    expectInvalid(await app.admin.post('/nodes/revoke', many(501)), '/ids');
    for (const invalid of [[], ['x'], 'x', [7], undefined])
      expectInvalid(await app.admin.post('/nodes/revoke', { ids: invalid }), '/ids');
  });

  it('answers 400 to a household or an expiry in another form, and registers nothing', async () => {
    const before = await app.database.query('SELECT id FROM nodes ORDER BY id');
    for (const household_id of ['not-a-uuid', 7])
      expectInvalid(await app.admin.post('/nodes', registration({ household_id })), '/household_id');
    for (const expires_at of ['tomorrow', '2030-01-01'])
      expectInvalid(await app.admin.post('/nodes', registration({ expires_at })), '/expires_at');
    expect(await app.database.query('SELECT id FROM nodes ORDER BY id')).toEqual(before);
  });

  it('answers 404 to a change that waited while its node was purged', async () => {
    const { nodeId } = await app.node();
    const purge = new Client({ connectionString: app.database.url });
    await purge.connect();
    await purge.query('BEGIN');
    await purge.query('DELETE FROM nodes WHERE id = $1', [nodeId]);
    const answer = app.admin.patch(`/nodes/${nodeId}`, { room: 'attic' }).then((response) => response);
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await eventually('it waits', async () => (await app.database.query(waiting)).length > 0);
    await purge.query('COMMIT');
    await purge.end();
    expectProblem(await answer, problems.notFound);
  });

  it('changes room, name and expiry of a node, and answers 400 without a body', async () => {
    const node = await app.node();
    const change = { room: 'hall', name: 'lamp', expires_at: '2099-01-01T00:00:00.000Z' };
    for (const sent of [change, { expires_at: null }])
      expect((await app.admin.patch(`/nodes/${node.nodeId}`, sent).expect(200)).body).toMatchObject(sent);
    const withoutBody = request(app.server).patch(`/api/v0/admin/nodes/${node.nodeId}`);
    expectInvalid(await withoutBody.set('X-Admin-Key', ADMIN_KEY), '');
  });
});

/** Every C0 and C1 control, DEL, and invisible characters that break a line or change its direction. */
const INVISIBLE = [
  ...Array.from({ length: 0x20 }, (_, code) => code),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  ...[0xad, 0x200b, 0x200e, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff, 0xe0041],
];

describe('the room and name of a node', () => {
  let node: Device;

  beforeAll(async () => {
    node = await app.node();
  });

  const expectBothInvalid = async (label: unknown): Promise<void> => {
    const change = { room: label, name: label };
    for (const answer of [
      await app.admin.post('/nodes', registration(change)),
      await app.admin.patch(`/nodes/${node.nodeId}`, change),
    ]) {
      const { errors } = answer.body as { errors?: { pointer: string }[] };
      const pointers = errors?.map(({ pointer }) => pointer).sort();
      expect({ label, status: answer.status, pointers }).toEqual({ label, status: 400, pointers: ['/name', '/room'] });
    }
  };

  it('answer 400 to every control and format character, when registered and when changed', async () => {
    for (const code of INVISIBLE) await expectBothInvalid(`a${String.fromCodePoint(code)}b`);
    expect((await app.admin.get(`/nodes/${node.nodeId}`)).body).toMatchObject({ room: 'kitchen', name: 'speaker' });
  });

  it.each(['Küche', '寝室', 'غرفة', "Zoë's 2nd room", '<b>&amp;</b>', '🛏', '-', 'x'.repeat(100), '🛏'.repeat(100)])(
    'may be %p, and are returned as they were sent',
    async (label) => {
      const { body } = await app.admin.post('/nodes', registration({ room: label, name: label })).expect(201);
      const { node_id } = body as { node_id: string };
      expect((await app.admin.get(`/nodes/${node_id}`)).body).toMatchObject({ room: label, name: label });
    },
  );

  it.each([null, 7, true, {}, '', '   ', '\u00a0', 'x'.repeat(101), '🛏'.repeat(101)])(
    'answer 400 to %p',
    expectBothInvalid,
  );

  it.each(['room', 'name'])('answer 400 to a list in %s', async (field) => {
    for (const list of [[], ['a']]) {
      expectInvalid(await app.admin.post('/nodes', registration({ [field]: list })), `/${field}`);
      expectInvalid(await app.admin.patch(`/nodes/${node.nodeId}`, { [field]: list }), `/${field}`);
    }
  });

  it.each(['node_id', 'api_key', 'key_digest', 'revoked_at', 'last_used_at', 'household_id', 'created_at'])(
    'cannot be changed together with %s (400)',
    async (field) => {
      const before = (await app.admin.get(`/nodes/${node.nodeId}`)).body as object;
      expectInvalid(await app.admin.patch(`/nodes/${node.nodeId}`, { room: 'x', [field]: randomUUID() }), `/${field}`);
      expect((await app.admin.get(`/nodes/${node.nodeId}`)).body).toEqual(before);
    },
  );

  it('belong to a household and a node whose ids match in any letter case', async () => {
    const household = randomUUID().toUpperCase();
    const { nodeId } = await app.node(household);
    for (const id of [household, household.toLowerCase()]) {
      const { body } = await app.admin.get(`/nodes?household_id=${id}`).expect(200);
      expect((body as { items: { node_id: string }[] }).items.map(({ node_id }) => node_id)).toEqual([nodeId]);
    }
    const upper = nodeId.toUpperCase();
    expect((await app.admin.get(`/nodes/${upper}`).expect(200)).body).toMatchObject({ node_id: nodeId });
    await app.admin.patch(`/nodes/${upper}`, { room: 'attic' }).expect(200);
    await app.admin.post(`/nodes/${upper}/rotate`).expect(200);
    await app.admin.delete(`/nodes/${upper}`).expect(204);
    expectProblem(await app.admin.post(`/nodes/${nodeId}/rotate`), problems.credentialRevoked);
  });

  it.each([
    '2000-01-01T00:00:00Z',
    '2030-02-30T00:00:00Z',
    '2030-01-01T25:00:00Z',
    '10000-01-01T00:00:00Z',
    '1999-12-31T23:59:59Z',
    '2030-01-01T00:00:00',
    1_900_000_000,
    '',
    {},
  ])('with an expiry of %p answer 201 or 400, never 500', async (expires_at) => {
    const { status, body } = await app.admin.post('/nodes', registration({ expires_at }));
    expect([201, 400]).toContain(status);
    if (status === 201) {
      const { node_id, api_key } = body as { node_id: string; api_key: string };
      expectProblem(await app.validateNode(`${node_id}:${api_key}`), problems.invalidNodeCredentials);
    }
  });
});
