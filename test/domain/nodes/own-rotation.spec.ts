import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../../support/expect-problem.js';
import type { Device } from '../../support/test-app.js';
import { expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';

interface Rotated {
  readonly node_id: string;
  readonly api_key: string;
  readonly previous_key_expires_at: string;
}

describe('POST /api/v0/nodes/me/rotate', () => {
  const app = useApp();
  const replica = useReplica(app);

  const rotate = (header: string, on = app) => on.post('/api/v0/nodes/me/rotate').set('X-API-Key', header);
  const rotated = async (header: string, on = app): Promise<Rotated & { header: string }> => {
    const { body } = await rotate(header, on).expect(200);
    const issued = body as Rotated;
    return { ...issued, header: `${issued.node_id}:${issued.api_key}` };
  };
  const expectRefused = async (header: string) =>
    expectProblem(await replica.validateNode(header), problems.invalidNodeCredentials);

  it('gives a node a new key, and keeps the old one until the first use of the new one', async () => {
    const node = await app.node();
    const { header, previous_key_expires_at, ...issued } = await rotated(node.header);
    const overlapMs = Date.parse(previous_key_expires_at) - app.clock.now().getTime();
    expect(Math.round(overlapMs / 3_600_000)).toBe(24);
    expect(issued).toEqual({
      node_id: node.nodeId,
      household_id: node.householdId,
      api_key: expect.stringMatching(/^pa_node_/) as string,
    });
    await replica.validateNode(node.header).expect(200);
    await replica.validateNode(header).expect(200);
    await expectRefused(node.header);
  });

  it('gives another new key to a device that lost the answer, and ends the lost one', async () => {
    const node = await app.node();
    const lost = await rotated(node.header);
    const second = await rotated(node.header, replica);
    await expectRefused(lost.header);
    await app.validateNode(node.header).expect(200);
    await app.validateNode(second.header).expect(200);
  });

  it('is open to a node with targets, and answers no other than a node', async () => {
    const node = await app.node();
    await app.admin.patch(`/nodes/${node.nodeId}`, { targets: ['recipes'] }).expect(200);
    await rotated(node.header);
    const revoked: Device = await app.node();
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    for (const header of [revoked.header, `${node.nodeId}:wrong`])
      expectProblem(await rotate(header), problems.invalidNodeCredentials);
    expectProblem(await app.post('/api/v0/nodes/me/rotate'), problems.invalidNodeCredentials);
    expectProblem(await rotate(node.header).set('X-Platform-Target', 'recipes'), problems.validationFailed);
  });

  it('records the node as the actor', async () => {
    const node = await app.node();
    await rotated(node.header);
    expect(await recorded(app, { subject: node.nodeId, event: 'node.rotated' })).toMatchObject([
      { actor: { door: 'node', id: node.nodeId }, details: { before: { rotated_at: null } } },
    ]);
  });

  it('is limited for each node: 429', async () => {
    const [node, other] = [await app.node(), await app.node()];
    for (let round = 0; round < 20; round++) await rotated(node.header, round % 2 === 0 ? app : replica);
    expect(expectThrottled(await rotate(node.header))).toMatchObject({ policy: 'node-rotation', points: 20 });
    await rotated(other.header);
  });
});
