import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { holdRow } from '../support/row-lock.js';
import type { Device } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('a rotation that meets something else', () => {
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

  it('keeps the old key for 24 hours when nobody says how long, and then no longer', async () => {
    const old = await app.node();
    await rotated(old);
    clock.advance({ minutes: 24 * 60 - 1 });
    await replica.validateNode(old.header).expect(200);
    clock.advance({ minutes: 1 });
    await refused(old);
  });

  it('takes its overlap from KEY_OVERLAP_HOURS', async () => {
    const short = await app.startReplica({ variables: { KEY_OVERLAP_HOURS: '1' } });
    const old = await app.node();
    await rotated(old, short);
    await short.stop();
    clock.advance({ minutes: 59 });
    await replica.validateNode(old.header).expect(200);
    clock.advance({ minutes: 1 });
    await refused(old);
  });

  it('shows until when the old key works, and forgets it at the first use of the new one', async () => {
    const old = await app.node();
    const ends = new Date(clock.now().getTime() + 3_600_000);
    const fresh = await rotated(old, app, { overlap_hours: 1 });
    const shown = (await app.admin.get(`/nodes/${old.nodeId}`).expect(200)).body as { previous_key_expires_at: string };
    expect(new Date(shown.previous_key_expires_at).getTime()).toBeGreaterThanOrEqual(ends.getTime());
    await replica.validateNode(fresh.header).expect(200);
    expect((await app.admin.get(`/nodes/${old.nodeId}`)).body).toMatchObject({ previous_key_expires_at: null });
  });

  it('with a revocation leaves no key alive, old or new', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    await app.admin.delete(`/nodes/${old.nodeId}`).expect(204);
    await refused(old);
    await refused(fresh);
  });

  it('with the expiry of the node leaves no key alive, and makes no new one', async () => {
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

  it('with another rotation keeps the key that surely works, and one of the new ones', async () => {
    for (let round = 0; round < 10; round++) {
      const old = await app.node();
      const fresh = await Promise.all(Array.from({ length: 6 }, (_, i) => rotated(old, i % 2 ? app : replica)));
      await replica.validateNode(old.header).expect(200);
      const answers = await Promise.all(fresh.map(({ header }) => app.validateNode(header)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      await refused(old);
    }
  });

  it('with the first use of the new key keeps whatever key was answered 200', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    const row = await holdRow(app.database, 'nodes', old.nodeId);
    // In the order in which they come to wait for the row: the rotation, then the end of the overlap.
    const second = rotated(old);
    await row.waiting(1);
    const firstUse = replica.validateNode(fresh.header).then(({ status }) => status);
    await row.waiting(2);
    await row.release();
    await second;
    const [answered, afterwards] = [await firstUse, (await app.validateNode(fresh.header)).status];
    expect({ answered, afterwards }).toEqual({ answered, afterwards: answered });
    // Told 200 for the new key the node forgets the old one; told 401 it goes back to it.
    await app.validateNode(answered === 200 ? fresh.header : old.header).expect(200);
  });
});
