import { randomUUID } from 'node:crypto';
import { generateSecret } from '../../src/crypto/secret.js';
import { PurgeJob } from '../../src/maintenance/maintenance.js';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { SECRET_KEY } from '../support/settings.js';
import { TestClock } from '../support/test-clock.js';
import { useAppPerTest } from '../support/use-app.js';

describe('POST /api/v0/admin/nodes with Idempotency-Key', () => {
  const app = useAppPerTest();

  const registration = () => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker' });
  const register = (key: string, body: object) => app.admin.post('/nodes', body).set('Idempotency-Key', key);
  const countOf = async (table: string): Promise<number> =>
    (await app.database.query<{ count: number }>(`SELECT count(*)::int AS count FROM ${table}`))[0]!.count;
  const validate = ({ node_id, api_key }: { node_id: string; api_key: string }) =>
    app.validateNode(`${node_id}:${api_key}`);

  it('answers the repeat with the same node and another key, and the first key goes on working', async () => {
    const body = registration();
    const first = await register('retry-1', body).expect(201);
    await validate(first.body).expect(200);
    const second = await register('retry-1', body).expect(201);
    expect(second.body).toMatchObject({ ...body, node_id: first.body.node_id });
    expect(second.headers.location).toBe(`/api/v0/admin/nodes/${first.body.node_id}`);
    expect(second.body.api_key).not.toBe(first.body.api_key);
    await validate(first.body).expect(200);
    await validate(second.body).expect(200);
    expect(await countOf('nodes')).toBe(1);
  });

  it('recognises the same body in another spelling', async () => {
    const body = registration();
    const first = await register('k', body).expect(201);
    const { household_id, room, name } = body;
    const again = await register('k', { name, room, household_id: household_id.toUpperCase(), expires_at: null });
    expect(again.body.node_id).toBe(first.body.node_id);
  });

  it('answers 422 to another body, and changes nothing', async () => {
    const body = registration();
    const first = await register('k', body).expect(201);
    expectProblem(await register('k', { ...body, name: 'lamp' }), problems.idempotencyKeyReused);
    expectProblem(await register('k', { ...body, expires_at: '2099-01-01T00:00:00Z' }), problems.idempotencyKeyReused);
    expect(await countOf('nodes')).toBe(1);
    const { body: node } = await app.admin.get(`/nodes/${first.body.node_id}`);
    expect(node).toMatchObject({ name: 'speaker', rotated_at: null });
  });

  it('registers one node for 10 concurrent repeats, on two replicas', async () => {
    const other = await app.startReplica();
    const body = registration();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? app : other).admin.post('/nodes', body).set('Idempotency-Key', 'k'),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 201));
    expect(new Set(answers.map((answer) => (answer.body as { node_id: string }).node_id)).size).toBe(1);
    expect(await countOf('nodes')).toBe(1);
  });

  it('answers the repeat with the same node during a rotation of SECRET_KEY, on replicas with either key', async () => {
    const newSecretKey = generateSecret();
    const rotated = await app.startReplica({
      variables: { SECRET_KEY: newSecretKey, SECRET_KEY_PREVIOUS: SECRET_KEY },
    });
    const [before, during] = [registration(), registration()];
    const first = await register('before', before).expect(201);
    const repeat = await rotated.admin.post('/nodes', before).set('Idempotency-Key', 'before').expect(201);
    expect(repeat.body.node_id).toBe(first.body.node_id);
    const second = await rotated.admin.post('/nodes', during).set('Idempotency-Key', 'during').expect(201);
    expect((await register('during', during).expect(201)).body.node_id).toBe(second.body.node_id);
    const after = await app.startReplica({ variables: { SECRET_KEY: newSecretKey } });
    const last = await after.admin.post('/nodes', during).set('Idempotency-Key', 'during').expect(201);
    expect(last.body.node_id).toBe(second.body.node_id);
    expect(await countOf('nodes')).toBe(2);
  });

  it('recognises the repeat on a replica whose clock is 500 days ahead, which rotates no key', async () => {
    const clock = new TestClock();
    clock.drift({ days: 500 });
    const ahead = await app.startReplica({ clock });
    const body = registration();
    const first = await register('k', body).expect(201);
    expectProblem(await ahead.admin.post('/nodes', body).set('Idempotency-Key', 'k'), problems.unavailable);
    const repeat = await register('k', body).expect(201);
    expect(repeat.body.node_id).toBe(first.body.node_id);
    expect(await countOf('nodes')).toBe(1);
  });

  it('registers another node after 24 hours', async () => {
    const body = registration();
    const first = await register('k', body).expect(201);
    app.clock.advance({ minutes: 24 * 60 - 1 });
    expect((await register('k', body)).body.node_id).toBe(first.body.node_id);
    app.clock.advance({ minutes: 1 });
    const later = await register('k', { ...body, name: 'lamp' }).expect(201);
    expect(later.body.node_id).not.toBe(first.body.node_id);
    expect((await register('k', { ...body, name: 'lamp' })).body.node_id).toBe(later.body.node_id);
  });

  it('purges keys after 24 hours, and keeps younger ones', async () => {
    await register('old', registration()).expect(201);
    app.clock.advance({ minutes: 12 * 60 });
    await register('young', registration()).expect(201);
    app.clock.advance({ minutes: 12 * 60 });
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await countOf('idempotency_keys')).toBe(1);
    expect(await countOf('nodes')).toBe(2);
  });

  it('answers 409 when the node was revoked meanwhile', async () => {
    const body = registration();
    const { node_id } = (await register('k', body).expect(201)).body as { node_id: string };
    await app.admin.delete(`/nodes/${node_id}`).expect(204);
    expectProblem(await register('k', body), problems.credentialRevoked);
    expect(await countOf('nodes')).toBe(1);
  });

  it('does not use up the key when the registration is refused', async () => {
    expectInvalid(await register('k', { ...registration(), room: '' }), '/room');
    await register('k', registration()).expect(201);
  });

  it('stores neither the key nor the body in plain text, and logs neither', async () => {
    const key = `plain-${randomUUID()}`;
    const body = { ...registration(), name: `name-${randomUUID()}` };
    await register(key, body).expect(201);
    await register(key, body).expect(201);
    const rows = await app.database.query<{ row: string }>(
      `SELECT row_to_json(idempotency_keys)::text || encode(key_mac, 'escape') || encode(body_mac, 'escape') AS row
       FROM idempotency_keys`,
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]!.row).not.toContain(key);
    expect(rows[0]!.row).not.toContain(body.name);
    expect(JSON.stringify(app.log.lines)).not.toContain(key);
  });

  it.each([
    ['empty', ''],
    ['with a blank', 'a b'],
    ['of 256 characters', 'x'.repeat(256)],
  ])('answers 400 to a key %s', async (_name, key) => {
    expectInvalid(await register(key, registration()), '');
    expect(await countOf('nodes')).toBe(0);
  });

  it('registers a node for each call without the header', async () => {
    const body = registration();
    await app.admin.post('/nodes', body).expect(201);
    await app.admin.post('/nodes', body).expect(201);
    expect(await countOf('nodes')).toBe(2);
  });
});
