import { randomUUID } from 'node:crypto';
import type { Response } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { APP_KEYS, type AppKeys } from '../../../src/domain/app-credentials/app-credentials.service.js';

const app = useApp();
const { clock } = app;
const replica = useReplica(app);

describe('POST /internal/validate-app', () => {
  /** What a caller sees of a response, without the ids of the request. */
  const seen = ({ status, headers, body }: Response): object => {
    const { date, 'x-request-id': id, ...otherHeaders } = headers as Record<string, string>;
    expect(date).toBeDefined();
    const { request_id, instance, ...others } = body as Record<string, string>;
    expect([request_id, instance]).toEqual([id, `urn:request:${id}`]);
    return { status, headers: otherHeaders, body: others };
  };

  it('returns the calling and the called service', async () => {
    const ocr = await app.service('ocr', 'auth');
    const expected = { valid: true, app_id: ocr.appId, caller: 'ocr', target: 'auth' };
    for (const body of [undefined, { target: 'auth' }, {}])
      expect((await replica.validateApp(ocr.headers, body).expect(200)).body).toEqual(expected);
  });

  it('returns the same response to a wrong id, a wrong key, a revoked, an expired and a rotated key', async () => {
    const [good, other] = [await app.service(), await app.service()];
    const [revoked, rotated] = [await app.service(), await app.service()];
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    const pair = { caller: randomUUID(), target: 'recipes' };
    const { body: expired } = await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
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
      await replica.validateApp({}),
      await replica.validateApp(revoked.headers),
      await replica.validateApp(rotated.headers),
      await replica.validateApp(credentials(expired.app_id as string, expired.app_key as string)),
      await replica.validateApp(good.headers, { target: 'another' }),
    ];
    for (const answer of refused) {
      expectProblem(answer, problems.invalidAppCredentials);
      expect(answer.body).toMatchObject({ valid: false });
      expect(seen(answer)).toEqual(seen(refused[0]!));
    }
    await replica.validateApp(good.headers).expect(200);
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

  it.each([{ target: '' }, { target: 'two words' }, { target: 7 }, { target: null }])(
    'answers 400 to the body %p',
    async (body) => {
      const service = await app.service();
      expectInvalid(await app.validateApp(service.headers, body), '/target');
    },
  );

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
});
