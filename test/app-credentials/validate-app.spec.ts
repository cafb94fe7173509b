import { randomUUID } from 'node:crypto';
import type { Response } from 'supertest';
import { APP_KEYS, type AppKeys } from '../../src/app-credentials/app-credentials.service.js';
import { problems } from '../../src/problems/problems.js';
import { NODE_KEYS, type NodeKeys } from '../../src/nodes/nodes.service.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp, useReplica } from '../support/use-app.js';

describe('POST /internal/validate-app', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  /** What a caller sees of a response, without the ids of the request. */
  const seen = ({ status, headers, body }: Response): object => {
    const { date, 'x-request-id': id, ...otherHeaders } = headers as Record<string, string>;
    expect(date).toBeDefined();
    const { request_id, instance, ...others } = body as Record<string, string>;
    expect([request_id, instance]).toEqual([id, `urn:request:${id}`]);
    return { status, headers: otherHeaders, body: others };
  };

  it('returns the same response to a wrong id, a wrong key, a revoked, an expired and a rotated key', async () => {
    const [good, other, revoked, rotated] = [
      await app.service(),
      await app.service(),
      await app.service(),
      await app.service(),
    ];
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    const minted = await app.admin.post('/app-credentials', { caller: randomUUID(), target: 'recipes', expires_at });
    const expired = minted.body as { app_id: string; app_key: string };
    await app.admin.delete(`/app-credentials/${revoked.appId}`).expect(204);
    await app.admin.post(`/app-credentials/${rotated.appId}/rotate`, { overlap_hours: 0 }).expect(200);
    clock.advance({ minutes: 1 });
    const credentials = (id: string, key: string) => ({ 'X-Platform-App-Id': id, 'X-Platform-App-Key': key });
    const refused = [
      await replica.validateApp(credentials(randomUUID(), good.appKey)),
      await replica.validateApp(credentials('no-uuid', good.appKey)),
      await replica.validateApp(credentials(good.appId, other.appKey)),
      await replica.validateApp(credentials(good.appId, good.appKey.slice(0, -1))),
      await replica.validateApp(credentials(good.appId, `${good.appKey}=`)),
      await replica.validateApp(revoked.headers),
      await replica.validateApp(rotated.headers),
      await replica.validateApp(credentials(expired.app_id, expired.app_key)),
      await replica.validateApp(good.headers, { target: 'another' }),
    ];
    for (const answer of refused) {
      expectProblem(answer, problems.invalidAppCredentials);
      expect(seen(answer)).toEqual(seen(refused[0]!));
    }
    await replica.validateApp(good.headers).expect(200);
  });

  it('accepts a new key, and refuses a revoked one, at the next call on every replica', async () => {
    for (let round = 0; round < 10; round++) {
      const service = await app.service();
      await replica.validateApp(service.headers).expect(200);
      await app.validateApp(service.headers).expect(200);
      await replica.admin.delete(`/app-credentials/${service.appId}`).expect(204);
      expectProblem(await app.validateApp(service.headers), problems.invalidAppCredentials);
      expectProblem(await replica.validateApp(service.headers), problems.invalidAppCredentials);
    }
  });

  it('refuses the key of a node, as validate-node refuses the key of a service', async () => {
    const [node, service] = [await app.node(), await app.service()];
    const asApp = { 'X-Platform-App-Id': node.nodeId, 'X-Platform-App-Key': node.apiKey };
    expectProblem(await app.validateApp(asApp), problems.invalidAppCredentials);
    expectProblem(await app.validateNode(`${service.appId}:${service.appKey}`), problems.invalidNodeCredentials);
  });

  it.each(['X-Platform-App-Id', 'X-Platform-App-Key'])('answers 401 to an empty or an absent %s', async (name) => {
    const { headers } = await app.service();
    const half = Object.fromEntries(Object.entries(headers).filter(([header]) => header !== name));
    expect(Object.keys(half)).toHaveLength(1);
    expectProblem(await app.validateApp(half), problems.invalidAppCredentials);
    expectProblem(await app.validateApp({ ...headers, [name]: '' }), problems.invalidAppCredentials);
  });

  it('records the last use of an accepted key, not of a refused one, and never an earlier use', async () => {
    const [used, refused] = [await app.service(), await app.service()];
    const keys = [app, replica].map(({ nest }) => nest.get<AppKeys>(APP_KEYS));
    const lastUsed = async (id: string): Promise<string | null> =>
      ((await app.admin.get(`/app-credentials/${id}`)).body as { last_used_at: string | null }).last_used_at;
    await app.validateApp(used.headers).expect(200);
    await app.validateApp({ ...refused.headers, 'X-Platform-App-Key': 'wrong' }).expect(401);
    clock.advance({ minutes: 5 });
    const later = clock.now().getTime();
    await replica.validateApp(used.headers).expect(200);
    // The replica with the later use writes first.
    for (const each of [...keys].reverse()) await each.flushLastUsed();
    expect(Date.parse((await lastUsed(used.appId))!)).toBeGreaterThanOrEqual(later);
    expect(await lastUsed(refused.appId)).toBeNull();
  });

  it('records the last use of a node the same way', async () => {
    const node = await app.node();
    const before = clock.now().getTime();
    await app.validateNode(node.header).expect(200);
    await app.nest.get<NodeKeys>(NODE_KEYS).flushLastUsed();
    const { body } = await replica.admin.get(`/nodes/${node.nodeId}`).expect(200);
    expect(Date.parse((body as { last_used_at: string }).last_used_at)).toBeGreaterThanOrEqual(before);
  });
});
