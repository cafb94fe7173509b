import { randomUUID } from 'node:crypto';
import { CountedRefusals } from '../../src/audit/counted-refusals.js';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { TestClock } from '../support/test-clock.js';
import { useApp, useReplica } from '../support/use-app.js';
import type { Device } from '../support/test-app.js';
import { holdRow } from '../support/row-lock.js';

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
