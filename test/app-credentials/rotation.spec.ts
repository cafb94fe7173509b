import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Service } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';

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
    expect(fresh.appKey).toMatch(/^pa_app_[\w-]{43}$/);
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
