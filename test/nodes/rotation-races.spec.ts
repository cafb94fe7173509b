import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { holdRow } from '../support/row-lock.js';
import type { Device } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('a rotation', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const rotated = async (node: Device, through = app, body?: object): Promise<Device> => {
    const answer = await through.admin.post(`/nodes/${node.nodeId}/rotate`, body).expect(200);
    const { api_key: apiKey } = answer.body as { api_key: string };
    return { ...node, apiKey, header: `${node.nodeId}:${apiKey}` };
  };
  const refused = async (node: Device): Promise<void> => {
    expectProblem(await replica.validateNode(node.header), problems.invalidNodeCredentials);
  };

  it('keeps the old key for 24 hours by default', async () => {
    const old = await app.node();
    await rotated(old);
    clock.advance({ minutes: 24 * 60 - 1 });
    await replica.validateNode(old.header).expect(200);
    clock.advance({ minutes: 1 });
    await refused(old);
  });

  it('keeps the old key for as long as the rotation says', async () => {
    const old = await app.node();
    await rotated(old, app, { overlap_hours: 1 });
    clock.advance({ minutes: 59 });
    await replica.validateNode(old.header).expect(200);
    clock.advance({ minutes: 1 });
    await refused(old);
  });

  it('shows the end of the overlap, which the first use of the new key clears', async () => {
    const old = await app.node();
    const ends = new Date(clock.now().getTime() + 3_600_000);
    const fresh = await rotated(old, app, { overlap_hours: 1 });
    const shown = (await app.admin.get(`/nodes/${old.nodeId}`).expect(200)).body as { previous_key_expires_at: string };
    expect(new Date(shown.previous_key_expires_at).getTime()).toBeGreaterThanOrEqual(ends.getTime());
    await replica.validateNode(fresh.header).expect(200);
    expect((await app.admin.get(`/nodes/${old.nodeId}`)).body).toMatchObject({ previous_key_expires_at: null });
  });

  it('concurrent with a revocation leaves no valid key', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    await app.admin.delete(`/nodes/${old.nodeId}`).expect(204);
    await refused(old);
    await refused(fresh);
  });

  it('of an expired node leaves no valid key', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    await app.admin.patch(`/nodes/${old.nodeId}`, { expires_at }).expect(200);
    clock.advance({ minutes: 1 });
    await refused(old);
    await refused(fresh);
    expectProblem(await app.admin.post(`/nodes/${old.nodeId}/rotate`), problems.credentialExpired);
    await app.admin.patch(`/nodes/${old.nodeId}`, { expires_at: null }).expect(200);
    await replica.validateNode(fresh.header).expect(200);
  });

  it('concurrent with another rotation keeps the old key and one of the new keys', async () => {
    for (let round = 0; round < 10; round++) {
      const old = await app.node();
      const fresh = await Promise.all(Array.from({ length: 6 }, (_, i) => rotated(old, i % 2 ? app : replica)));
      await replica.validateNode(old.header).expect(200);
      const answers = await Promise.all(fresh.map(({ header }) => app.validateNode(header)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      await refused(old);
    }
  });

  it('concurrent with the first use of the new key keeps the key that was answered with 200', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    const row = await holdRow(app.database, 'nodes', old.nodeId);
    // The order in which they wait for the row: the rotation, then the end of the overlap.
    const second = rotated(old);
    await row.waiting(1);
    const firstUse = replica.validateNode(fresh.header).then(({ status }) => status);
    await row.waiting(2);
    await row.release();
    await second;
    const [answered, afterwards] = [await firstUse, (await app.validateNode(fresh.header)).status];
    expect({ answered, afterwards }).toEqual({ answered, afterwards: answered });
    // After 200 for the new key the node deletes the old one; after 401 it uses the old one again.
    await app.validateNode(answered === 200 ? fresh.header : old.header).expect(200);
  });

  it('used first by two replicas at once ends the old key at the earlier use', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    const lock = await holdRow(app.database, 'nodes', old.nodeId);
    const earlier = app.validateNode(fresh.header).then(({ status }) => status);
    await lock.waiting(1);
    const latestEnd = clock.now();
    clock.advance({ seconds: 10 });
    const later = replica.validateNode(fresh.header).then(({ status }) => status);
    await lock.waiting(2);
    await lock.release();
    expect([await earlier, await later]).toEqual([200, 200]);
    const sql = 'SELECT overlap_ended_at AS ended FROM nodes WHERE id = $1';
    const [row] = await app.database.query<{ ended: Date }>(sql, [old.nodeId]);
    expect(row?.ended.getTime()).toBeLessThanOrEqual(latestEnd.getTime());
  });
});
