import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Device } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

/** Every C0 and C1 control, DEL, and invisible characters that break a line or change its direction. */
const INVISIBLE = [
  ...Array.from({ length: 0x20 }, (_, code) => code),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  ...[0xad, 0x200b, 0x200e, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff, 0xe0041],
];

describe('the room and name of a node', () => {
  const app = useApp();
  let node: Device;

  beforeAll(async () => {
    node = await app.node();
  });

  const registration = (more: object): object => ({ household_id: randomUUID(), room: 'hall', name: 'lamp', ...more });

  it.each(['room', 'name'])(
    'answer 400 to every control and format character in %s, when registered and when changed',
    async (field) => {
      for (const code of INVISIBLE) {
        const change = { [field]: `a${String.fromCodePoint(code)}b` };
        const answers = [
          await app.admin.post('/nodes', registration(change)),
          await app.admin.patch(`/nodes/${node.nodeId}`, change),
        ];
        for (const { status, body } of answers) {
          const { errors } = body as { errors?: { pointer: string }[] };
          expect({ code, status, pointer: errors?.[0]?.pointer }).toEqual({ code, status: 400, pointer: `/${field}` });
        }
      }
      expect((await app.admin.get(`/nodes/${node.nodeId}`)).body).toMatchObject({ room: 'kitchen', name: 'speaker' });
    },
  );

  it.each(['Küche', '寝室', 'غرفة', "Zoë's 2nd room", '<b>&amp;</b>', '🛏', '-', 'x'.repeat(100), '🛏'.repeat(100)])(
    'may be %p, and are returned as they were sent',
    async (label) => {
      const { body } = await app.admin.post('/nodes', registration({ room: label, name: label })).expect(201);
      const { node_id } = body as { node_id: string };
      expect((await app.admin.get(`/nodes/${node_id}`)).body).toMatchObject({ room: label, name: label });
    },
  );

  it.each([null, 7, true, [], ['a'], {}, '', '   ', '\u00a0', '🛏'.repeat(101)])('answer 400 to %p', async (label) => {
    for (const field of ['room', 'name']) {
      expectInvalid(await app.admin.post('/nodes', registration({ [field]: label })), `/${field}`);
      expectInvalid(await app.admin.patch(`/nodes/${node.nodeId}`, { [field]: label }), `/${field}`);
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
