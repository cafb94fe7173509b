import { randomUUID } from 'node:crypto';
import { generateSecret } from '../../../src/foundation/crypto/secret.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { MASTER_KEY } from '../../support/settings.js';
import { TestClock } from '../../support/test-clock.js';
import { useApp } from '../../support/use-app.js';

describe('POST /api/v0/admin/nodes with Idempotency-Key', () => {
  const app = useApp();

  const registration = () => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker' });
  const register = (key: string, body: object, by = app) => by.admin.post('/nodes', body).set('Idempotency-Key', key);
  /** @returns the id of the node with which the call is answered */
  const registers = async (...call: Parameters<typeof register>): Promise<string> =>
    (await register(...call).expect(201)).body.node_id as string;
  const listNodes = async ({ household_id }: { household_id: string }) =>
    (await app.admin.get(`/nodes?household_id=${household_id}`)).body.items as { node_id: string }[];
  const newKey = (): string => randomUUID();

  it('answers the repeat with the same node and another key, and the first key goes on working', async () => {
    const [key, body] = [newKey(), registration()];
    const first = await register(key, body).expect(201);
    const { node_id } = first.body as { node_id: string };
    const validate = ({ api_key }: { api_key: string }) => app.validateNode(`${node_id}:${api_key}`).expect(200);
    await validate(first.body);
    const second = await register(key, body).expect(201);
    expect(second.body).toMatchObject({ ...body, node_id });
    expect(second.headers.location).toBe(`/api/v0/admin/nodes/${node_id}`);
    expect(second.body.api_key).not.toBe(first.body.api_key);
    for (const answer of [first, second]) await validate(answer.body);
    expect(await listNodes(body)).toHaveLength(1);
  });

  it('recognises the same body in another spelling, and answers 422 to another body, which changes nothing', async () => {
    const [key, body] = [newKey(), registration()];
    const node_id = await registers(key, body);
    for (const change of [{ name: 'lamp' }, { expires_at: '2099-01-01T00:00:00Z' }])
      expectProblem(await register(key, { ...body, ...change }), problems.idempotencyKeyReused);
    expect(await listNodes(body)).toMatchObject([{ node_id, name: 'speaker', rotated_at: null }]);
    const { household_id, room, name } = body;
    const again = { name, room, household_id: household_id.toUpperCase(), expires_at: null };
    expect(await registers(key, again)).toBe(node_id);
  });

  it('registers one node for 10 concurrent repeats, on two replicas', async () => {
    const other = await app.startReplica();
    const [key, body] = [newKey(), registration()];
    const calls = Array.from({ length: 10 }, (_, index) => registers(key, body, index % 2 ? app : other));
    expect(new Set(await Promise.all(calls)).size).toBe(1);
    expect(await listNodes(body)).toHaveLength(1);
  });

  it('answers the repeat with the same node during a rotation of MASTER_KEY, on replicas with either key', async () => {
    const newMasterKey = generateSecret();
    const before = await app.startReplica({ variables: { MASTER_KEY, MASTER_KEY_PREVIOUS: newMasterKey } });
    const during = { MASTER_KEY: newMasterKey, MASTER_KEY_PREVIOUS: MASTER_KEY };
    const rotated = await app.startReplica({ variables: during });
    const after = await app.startReplica({ variables: { MASTER_KEY: newMasterKey } });
    for (const [one, ...others] of [
      [app, before, before, rotated, after],
      [app, rotated, after],
      [before, app, rotated, after],
      [rotated, before, app, after],
      [after, rotated, before, app],
    ] as const) {
      const [key, body] = [newKey(), registration()];
      const node_id = await registers(key, body, one);
      for (const other of others) expect(await registers(key, body, other)).toBe(node_id);
      expect(await listNodes(body)).toHaveLength(1);
    }
  });

  it('recognises the repeat on a replica whose clock is 500 days ahead, which rotates no key', async () => {
    const clock = new TestClock();
    clock.drift({ days: 500 });
    const ahead = await app.startReplica({ clock });
    const [key, body] = [newKey(), registration()];
    const node_id = await registers(key, body);
    expectProblem(await register(key, body, ahead), problems.unavailable);
    expect(await registers(key, body)).toBe(node_id);
    expect(await listNodes(body)).toHaveLength(1);
  });

  it('registers another node after 24 hours', async () => {
    const [key, body] = [newKey(), registration()];
    const node_id = await registers(key, body);
    app.clock.advance({ minutes: 24 * 60 - 1 });
    expect(await registers(key, body)).toBe(node_id);
    app.clock.advance({ minutes: 1 });
    const later = await registers(key, { ...body, name: 'lamp' });
    expect(later).not.toBe(node_id);
    expect(await registers(key, { ...body, name: 'lamp' })).toBe(later);
  });

  it('purges keys after 24 hours, and keeps younger ones', async () => {
    const bodies = [registration(), registration()];
    for (const body of bodies) {
      await registers(newKey(), body);
      app.clock.advance({ minutes: 12 * 60 });
    }
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await app.database.query('SELECT 1 FROM idempotency_keys')).toHaveLength(1);
    for (const body of bodies) expect(await listNodes(body)).toHaveLength(1);
  });

  it('answers 409 when the node was revoked meanwhile', async () => {
    const [key, body] = [newKey(), registration()];
    await app.admin.delete(`/nodes/${await registers(key, body)}`).expect(204);
    expectProblem(await register(key, body), problems.credentialRevoked);
    expect(await listNodes(body)).toHaveLength(1);
  });

  it('does not use up the key when the registration is refused', async () => {
    const key = newKey();
    expectInvalid(await register(key, { ...registration(), room: '' }), '/room');
    await registers(key, registration());
  });

  it('stores neither the key nor the body in plain text, and logs neither', async () => {
    const [key, body] = [newKey(), { ...registration(), name: newKey() }];
    await registers(key, body);
    await registers(key, body);
    const stored = await app.database.query(
      `SELECT row_to_json(idempotency_keys)::text || encode(key_mac, 'escape') || encode(body_mac, 'escape') AS row
       FROM idempotency_keys`,
    );
    expect(stored.length).toBeGreaterThan(0);
    expect(JSON.stringify([stored, app.log.lines])).not.toContain(key);
    expect(JSON.stringify(stored)).not.toContain(body.name);
  });

  it.each(['', 'a b', 'x'.repeat(256)])('answers 400 to the key %p', async (key) => {
    const body = registration();
    expectInvalid(await register(key, body), '');
    expect(await listNodes(body)).toEqual([]);
  });

  it('issues a node for each call without the header', async () => {
    const body = registration();
    for (let call = 0; call < 2; call += 1) await app.admin.post('/nodes', body).expect(201);
    expect(await listNodes(body)).toHaveLength(2);
  });
});
