import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Device } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('POST /api/v0/admin/nodes/{node_id}/rotate', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  /** Rotates the key. @returns the node with its new key */
  const rotated = async (node: Device, body?: object): Promise<Device> => {
    const answer = await app.admin.post(`/nodes/${node.nodeId}/rotate`, body).expect(200);
    const { api_key: apiKey } = answer.body as { api_key: string };
    return { ...node, apiKey, header: `${node.nodeId}:${apiKey}` };
  };

  const expectRefused = async (node: Device): Promise<void> => {
    expectProblem(await replica.validateNode(node.header), problems.invalidNodeCredentials);
  };

  it('accepts the old key until the first use of the new one, on every replica', async () => {
    const old = await app.node();
    const fresh = await rotated(old);
    await replica.validateNode(old.header).expect(200);
    await app.validateNode(old.header).expect(200);
    await app.validateNode(fresh.header).expect(200);
    await expectRefused(old);
    await replica.validateNode(fresh.header).expect(200);
  });

  it('refuses the old key after the overlap when the new key is never used', async () => {
    const old = await app.node();
    const fresh = await rotated(old, { overlap_hours: 2 });
    clock.advance({ minutes: 119 });
    await replica.validateNode(old.header).expect(200);
    clock.advance({ minutes: 2 });
    await expectRefused(old);
    await replica.validateNode(fresh.header).expect(200);
  });

  it('refuses the old key at once with overlap_hours 0', async () => {
    const old = await app.node();
    const fresh = await rotated(old, { overlap_hours: 0 });
    await expectRefused(old);
    await replica.validateNode(fresh.header).expect(200);
  });

  it('refuses the old key after overlap_hours 0 also when the clock goes back', async () => {
    const old = await app.node();
    const fresh = await rotated(old, { overlap_hours: 0 });
    clock.advance({ days: -2 });
    await expectRefused(old);
    await replica.validateNode(fresh.header).expect(200);
    clock.advance({ days: 2 });
  });

  it('keeps the old key when a rotation is repeated because its response was lost', async () => {
    const old = await app.node();
    const lost = await rotated(old);
    const fresh = await rotated(old);
    await replica.validateNode(old.header).expect(200);
    await expectRefused(lost);
    await replica.validateNode(fresh.header).expect(200);
    await expectRefused(old);
  });

  it('never locks out a node that validates while it rotates', async () => {
    let node = await app.node();
    for (let round = 0; round < 20; round++) {
      const [fresh, ...answers] = await Promise.all([
        rotated(node),
        ...Array.from({ length: 6 }, (_, i) => (i % 2 ? app : replica).validateNode(node.header)),
      ]);
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
      const both = await Promise.all([replica.validateNode(fresh.header), app.validateNode(fresh.header)]);
      expect(both.map(({ status }) => status)).toEqual([200, 200]);
      await expectRefused(node);
      node = fresh;
    }
  });

  it('answers 404 to an unknown node, 409 to a revoked one and 400 to an invalid overlap', async () => {
    const node = await app.node();
    const path = `/nodes/${node.nodeId}/rotate`;
    for (const overlap_hours of [-1, 1.5, '1', 8_761, null]) {
      expectInvalid(await app.admin.post(path, { overlap_hours }), '/overlap_hours');
    }
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    expectProblem(await app.admin.post(path), problems.credentialRevoked);
    expectProblem(await app.admin.post('/nodes/not-a-uuid/rotate'), problems.notFound);
  });
});
