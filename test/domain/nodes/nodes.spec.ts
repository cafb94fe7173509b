import { randomUUID } from 'node:crypto';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../../support/expect-problem.js';
import { TestClock } from '../../support/test-clock.js';
import { useApp, useReplica } from '../../support/use-app.js';

describe('POST /internal/validate-node', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  it('returns the household of a node, on every replica, at the next call after its registration', async () => {
    for (let round = 0; round < 10; round++) {
      const node = await app.node();
      const answer = await replica.validateNode(node.header).expect(200);
      expect(answer.body).toEqual({ valid: true, node_id: node.nodeId, household_id: node.householdId });
    }
  });

  it('returns the same 401 to an unknown node, a wrong key, a revoked and an expired one', async () => {
    const [revoked, expired, good] = [await app.node(), await app.node(), await app.node()];
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    await app.admin.patch(`/nodes/${expired.nodeId}`, { expires_at }).expect(200);
    await app.validateNode(expired.header).expect(200);
    clock.advance({ minutes: 1 });
    const presented = [`${randomUUID()}:${good.apiKey}`, `${good.nodeId}:wrong`, revoked.header, expired.header];
    for (const header of presented) {
      const answer = await replica.validateNode(header);
      expectProblem(answer, problems.invalidNodeCredentials);
      expect(answer.body).toMatchObject({ valid: false });
    }
    const reasons = replica.log.events('node.validation.failed').map(({ reason }) => reason);
    expect(reasons).toEqual(['unknown', 'wrong_key', 'revoked', 'expired']);
    await replica.nest.get(CountedRefusals).flush();
    const refusedNodes = [
      [good, 'wrong_key'],
      [revoked, 'revoked'],
      [expired, 'expired'],
    ] as const;
    for (const [{ nodeId }, reason] of refusedNodes)
      expect(await recorded(app, { subject: nodeId, event: 'node.validation.failed' })).toMatchObject([
        { actor: { door: 'open', id: null }, count: 1, details: { reasons: { [reason]: 1 } } },
      ]);
  });

  it.each([
    '',
    'no-colon',
    ':',
    ':key',
    'id:',
    'a:b:c',
    `${'x'.repeat(8_000)}:y`,
    `${randomUUID()}:${'k'.repeat(8_000)}`,
    "';--:x",
  ])('answers 401 to the header %p', async (header) => {
    expectProblem(await app.validateNode(header), problems.invalidNodeCredentials);
  });

  it('splits the header at the first colon', async () => {
    const node = await app.node();
    expectProblem(await app.validateNode(`${node.header}:`), problems.invalidNodeCredentials);
    expectProblem(await app.validateNode(`${node.header}:x`), problems.invalidNodeCredentials);
  });

  it('requires valid app headers when they are sent', async () => {
    const [node, service] = [await app.node(), await app.service(undefined, 'auth')];
    await app.validateNode(node.header).set(service.headers).expect(200);
    const bad = { ...service.headers, 'X-Platform-App-Key': 'wrong' };
    expectProblem(await app.validateNode(node.header).set(bad), problems.invalidAppCredentials);
    const half = { 'X-Platform-App-Id': service.appId };
    expectProblem(await app.validateNode(node.header).set(half), problems.invalidAppCredentials);
    expectProblem(await app.validateNode('x:y').set(service.headers), problems.invalidNodeCredentials);
  });

  it('requires app headers with VALIDATE_NODE_REQUIRES_APP', async () => {
    const strict = await app.startReplica({ variables: { VALIDATE_NODE_REQUIRES_APP: 'true' } });
    const [node, service] = [await app.node(), await app.service(undefined, 'auth')];
    expectProblem(await strict.validateNode(node.header), problems.invalidAppCredentials);
    await strict.validateNode(node.header).set(service.headers).expect(200);
    await strict.stop();
  });

  it('records the last use of a key, not at every request', async () => {
    const node = await app.node();
    // Just started, so that what it holds back is not due within the test.
    const replica = await app.startReplica();
    await replica.validateNode(node.header).expect(200);
    expect((await app.admin.get(`/nodes/${node.nodeId}`)).body).toMatchObject({ last_used_at: null });
    await replica.stop();
    expect((await app.admin.get(`/nodes/${node.nodeId}`)).body).toMatchObject({ last_used_at: expect.any(String) });
  });

  it('records a use after one that a replica whose clock was ahead has recorded', async () => {
    const node = await app.node();
    const ahead = new TestClock();
    ahead.drift({ days: 500 });
    for (const options of [{ clock: ahead }, {}]) {
      const replica = await app.startReplica(options);
      await replica.validateNode(node.header).expect(200);
      await replica.stop();
    }
    const { last_used_at } = (await app.admin.get(`/nodes/${node.nodeId}`)).body as { last_used_at: string };
    expect(Date.parse(last_used_at)).toBeLessThanOrEqual(clock.now().getTime());
  });
});
