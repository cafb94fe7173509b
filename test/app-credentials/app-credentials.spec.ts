import { randomUUID } from 'node:crypto';
import type { Response } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp, useReplica } from '../support/use-app.js';
import type { Service } from '../support/test-app.js';
import { APP_KEYS, type AppKeys } from '../../src/app-credentials/app-credentials.service.js';
import { NODE_KEYS, type NodeKeys } from '../../src/nodes/nodes.service.js';

describe('app credentials', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const mint = (pair: object) => app.admin.post('/app-credentials', pair);

  describe('POST /internal/validate-app', () => {
    it('returns the calling and the called service', async () => {
      const ocr = await app.service('ocr', 'auth');
      const expected = { valid: true, app_id: ocr.appId, caller: 'ocr', target: 'auth' };
      expect((await replica.validateApp(ocr.headers).expect(200)).body).toEqual(expected);
      expect((await replica.validateApp(ocr.headers, { target: 'auth' }).expect(200)).body).toEqual(expected);
      expect((await replica.validateApp(ocr.headers, {}).expect(200)).body).toEqual(expected);
    });

    it('returns the same 401 to a wrong id, a wrong key, a revoked key and a key for another target', async () => {
      const [a, b, revoked] = [await app.service(), await app.service(), await app.service()];
      await app.admin.delete(`/app-credentials/${revoked.appId}`).expect(204);
      const cases: [Record<string, string>, object?][] = [
        [{ ...a.headers, 'X-Platform-App-Id': randomUUID() }],
        [{ ...a.headers, 'X-Platform-App-Id': 'not a uuid' }],
        [{ ...a.headers, 'X-Platform-App-Key': b.appKey }],
        [{ 'X-Platform-App-Key': a.appKey }],
        [{ 'X-Platform-App-Id': a.appId }],
        [{}],
        [revoked.headers],
        [a.headers, { target: 'another-service' }],
      ];
      for (const [headers, body] of cases) {
        const answer = await replica.validateApp(headers, body);
        expectProblem(answer, problems.invalidAppCredentials);
        expect(answer.body).toMatchObject({ valid: false });
      }
    });

    it.each([{ target: '' }, { target: 'two words' }, { target: 7 }, { target: null }])(
      'answers 400 to the body %p',
      async (body) => {
        const service = await app.service();
        expectInvalid(await app.validateApp(service.headers, body), '/target');
      },
    );
  });

  describe('/api/v0/admin/app-credentials', () => {
    it('accepts exactly one of 50 concurrent mints of a pair', async () => {
      for (let round = 0; round < 3; round++) {
        const pair = { caller: randomUUID(), target: 'recipes' };
        const answers = await Promise.all(Array.from({ length: 50 }, () => mint(pair)));
        const losers = answers.filter(({ status }) => status !== 201);
        expect(losers).toHaveLength(49);
        for (const loser of losers) expectProblem(loser, problems.appCredentialExists);
      }
    });

    it('mints a pair again after its credential was revoked or has expired', async () => {
      const pair = { caller: randomUUID(), target: 'recipes' };
      const first = await mint(pair).expect(201);
      await app.admin.delete(`/app-credentials/${(first.body as { app_id: string }).app_id}`).expect(204);
      const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
      await mint({ ...pair, expires_at }).expect(201);
      expectProblem(await mint(pair), problems.appCredentialExists);
      clock.advance({ minutes: 2 });
      const { body } = await mint(pair).expect(201);
      expect(body).toMatchObject({ app_key: expect.stringMatching(/^pa_app_[\w-]{43}\w{6}$/) });
    });

    it('lists by caller and target, and shows a credential without its key', async () => {
      const service = await app.service(randomUUID(), 'ocr');
      const { body } = await app.admin.get(`/app-credentials?caller=${service.caller}&target=ocr`).expect(200);
      const { items } = body as { items: unknown[] };
      expect(items).toMatchObject([{ app_id: service.appId, caller: service.caller, target: 'ocr' }]);
      const one = await app.admin.get(`/app-credentials/${service.appId}`).expect(200);
      expect(one.body).toEqual(items[0]);
      expect(JSON.stringify(one.body)).not.toContain(service.appKey);
    });

    it('rotates with an overlap that ends at the first use of the new key', async () => {
      const old = await app.service();
      const { body } = await app.admin.post(`/app-credentials/${old.appId}/rotate`).expect(200);
      const fresh = { ...old.headers, 'X-Platform-App-Key': (body as { app_key: string }).app_key };
      await replica.validateApp(old.headers).expect(200);
      await app.validateApp(fresh).expect(200);
      expectProblem(await replica.validateApp(old.headers), problems.invalidAppCredentials);
    });

    it.each([
      { caller: '', target: 'b' },
      { caller: 'a b', target: 'b' },
      { caller: 'a', target: 'b\n' },
      { caller: 'a' },
    ])('answers 400 to the pair %p', async (pair) => {
      expect((await mint(pair)).status).toBe(400);
    });

    it.each(['1', randomUUID()])('answers 404 to the app id %p', async (id) => {
      expectProblem(await app.admin.get(`/app-credentials/${id}`), problems.notFound);
      expectProblem(await app.admin.delete(`/app-credentials/${id}`), problems.notFound);
      expectProblem(await app.admin.post(`/app-credentials/${id}/rotate`), problems.notFound);
    });
  });
});

describe('POST /api/v0/admin/app-credentials/{app_id}/rotate', () => {
  const app = useApp();
  const { clock } = app;
  const replica = useReplica(app);

  const rotated = async (service: Service, body?: object): Promise<Service> => {
    const answer = await app.admin.post(`/app-credentials/${service.appId}/rotate`, body).expect(200);
    const { app_key: appKey } = answer.body as { app_key: string };
    return { ...service, appKey, headers: { ...service.headers, 'X-Platform-App-Key': appKey } };
  };
  const passes = async ({ headers, appId }: Service): Promise<void> => {
    expect((await replica.validateApp(headers).expect(200)).body).toMatchObject({ valid: true, app_id: appId });
  };
  const refused = async ({ headers }: Service): Promise<void> => {
    expectProblem(await replica.validateApp(headers), problems.invalidAppCredentials);
  };

  it('returns a new key for the same pair and app id', async () => {
    const old = await app.service();
    const fresh = await rotated(old);
    expect(fresh.appKey).toMatch(/^pa_app_[\w-]{43}\w{6}$/);
    expect(fresh.appKey).not.toBe(old.appKey);
    const { body } = await replica.validateApp(fresh.headers).expect(200);
    expect(body).toEqual({ valid: true, app_id: old.appId, caller: old.caller, target: old.target });
  });

  it('accepts both keys until the new one is first used', async () => {
    const old = await app.service();
    const fresh = await rotated(old);
    await passes(old);
    await passes(fresh);
    await refused(old);
  });

  it('refuses a call for another target, which does not end the overlap', async () => {
    const old = await app.service();
    await rotated(old);
    expectProblem(await app.validateApp(old.headers, { target: 'another' }), problems.invalidAppCredentials);
    await passes(old);
  });

  it('refuses the old key after the overlap', async () => {
    const old = await app.service();
    const fresh = await rotated(old, { overlap_hours: 1 });
    clock.advance({ minutes: 59 });
    await passes(old);
    clock.advance({ minutes: 1 });
    await refused(old);
    await passes(fresh);
  });

  it('refuses the old key at once with overlap_hours 0, also during an overlap', async () => {
    const old = await app.service();
    const second = await rotated(old);
    const third = await rotated(old, { overlap_hours: 0 });
    await refused(old);
    await refused(second);
    await passes(third);
  });

  it('keeps the old key when the rotation is repeated because its response was lost', async () => {
    const old = await app.service();
    const lost = await rotated(old);
    const fresh = await rotated(old);
    await passes(old);
    await refused(lost);
    await passes(fresh);
    await refused(old);
  });

  it('refuses every key of a revoked credential, and does not rotate it', async () => {
    const old = await app.service();
    const fresh = await rotated(old);
    await app.admin.delete(`/app-credentials/${old.appId}`).expect(204);
    await refused(old);
    await refused(fresh);
    expectProblem(await app.admin.post(`/app-credentials/${old.appId}/rotate`), problems.credentialRevoked);
  });

  it('does not rotate a credential that has expired', async () => {
    const pair = { caller: 'expiring', target: 'recipes' };
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    const { body } = await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
    const { app_id, app_key } = body as { app_id: string; app_key: string };
    const headers = { 'X-Platform-App-Id': app_id, 'X-Platform-App-Key': app_key };
    await replica.validateApp(headers).expect(200);
    clock.advance({ minutes: 1 });
    expectProblem(await replica.validateApp(headers), problems.invalidAppCredentials);
    expectProblem(await app.admin.post(`/app-credentials/${app_id}/rotate`), problems.credentialExpired);
  });

  it.each([-1, 0.5, '24', 8_761, true, null, [1], { hours: 1 }])(
    'answers 400 to an overlap of %p',
    async (overlap_hours) => {
      const { appId } = await app.service();
      expectInvalid(await app.admin.post(`/app-credentials/${appId}/rotate`, { overlap_hours }), '/overlap_hours');
    },
  );
});

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
