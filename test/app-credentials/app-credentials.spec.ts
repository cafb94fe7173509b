import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp, useReplica } from '../support/use-app.js';

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
      expect(body).toMatchObject({ app_key: expect.stringMatching(/^pa_app_[\w-]{43}$/) });
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
