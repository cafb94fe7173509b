import { randomUUID } from 'node:crypto';
import type { UserExplanationResponse } from '../../../src/api/admin/explanations.admin.controller.js';
import type { ExplanationResponse } from '../../../src/api/admin/key-explanation.dto.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { FactorOwner } from '../../domain/second-factors/owner.js';
import { expectThrottled } from '../../support/throttled.js';

const codes = (reasons: { code: string }[]) => reasons.map(({ code }) => code);

describe('GET …/explain', () => {
  const app = useApp();
  const { clock } = app;

  const node = async (id: string) =>
    (await app.admin.get(`/nodes/${id}/explain`).expect(200)).body as ExplanationResponse;
  const service = async (id: string, query = '') =>
    (await app.admin.get(`/app-credentials/${id}/explain${query}`).expect(200)).body as ExplanationResponse;

  it('reports a node that was never used as accepted', async () => {
    const { nodeId } = await app.node();
    const never = {
      previous_key_accepted_until: null,
      last_accepted_at: null,
      last_accepted_for: null,
      current_key_last_accepted_at: null,
      previous_key_last_accepted_at: null,
      previous_key_last_accepted_for: null,
    };
    expect(await node(nodeId)).toEqual({ accepted_now: true, reasons: [], previous_key_reasons: [], ...never });
    expect(await node(nodeId.toUpperCase())).toMatchObject({ accepted_now: true });
  });

  it.each(['not-an-id', randomUUID(), '%00'])('reports %p as unknown with 200, not 404', async (id) => {
    const unknown = { accepted_now: false, reasons: [{ code: 'unknown' }], previous_key_reasons: [] };
    for (const explanation of [await node(id), await service(id)]) expect(explanation).toMatchObject(unknown);
  });

  it('reports when a node was revoked and by which request; revoking again changes neither', async () => {
    const { nodeId } = await app.node();
    const first = await app.admin.delete(`/nodes/${nodeId}`).expect(204);
    const { revoked_at } = (await app.admin.get(`/nodes/${nodeId}`)).body as { revoked_at: string };
    clock.advance({ minutes: 1 });
    await app.admin.delete(`/nodes/${nodeId}`).expect(204);
    const reasons = [{ code: 'revoked', since: revoked_at, request_id: first.headers['x-request-id'] }];
    expect(await node(nodeId)).toMatchObject({ accepted_now: false, reasons });
  });

  it('reports that a node has expired', async () => {
    const { nodeId } = await app.node();
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    await app.admin.patch(`/nodes/${nodeId}`, { expires_at }).expect(200);
    expect(await node(nodeId)).toMatchObject({ accepted_now: true });
    clock.advance({ minutes: 2 });
    expect((await node(nodeId)).reasons).toMatchObject([{ code: 'expired', since: expires_at, request_id: null }]);
  });

  it('reports which request rotated the key, and until when the old key is accepted', async () => {
    const { nodeId } = await app.node();
    const before = clock.now().getTime();
    const rotation = await app.admin.post(`/nodes/${nodeId}/rotate`, { overlap_hours: 2 }).expect(200);
    const open = await node(nodeId);
    expect(open).toMatchObject({ accepted_now: true, previous_key_reasons: [] });
    expect(Date.parse(open.previous_key_accepted_until!)).toBeGreaterThanOrEqual(before + 7_200_000);
    clock.advance({ minutes: 121 });
    const ended = await node(nodeId);
    expect(ended).toMatchObject({ accepted_now: true, previous_key_accepted_until: null });
    expect(ended.previous_key_reasons).toMatchObject([
      { code: 'key_rotated', request_id: rotation.headers['x-request-id'] },
      { code: 'overlap_ended', since: open.previous_key_accepted_until },
    ]);
  });

  it('does not report the old key of a revoked node as accepted', async () => {
    const { nodeId } = await app.node();
    await app.admin.post(`/nodes/${nodeId}/rotate`, { overlap_hours: 2 }).expect(200);
    await app.admin.delete(`/nodes/${nodeId}`).expect(204);
    const refused = { previous_key_accepted_until: null, previous_key_reasons: [{ code: 'revoked' }] };
    expect(await node(nodeId)).toMatchObject(refused);
  });

  it('reports that the first use of the new key ended the overlap', async () => {
    const old = await app.node();
    const { body } = await app.admin.post(`/nodes/${old.nodeId}/rotate`).expect(200);
    clock.advance({ minutes: 5 });
    const firstUse = clock.now().getTime();
    await app.validateNode(`${old.nodeId}:${body.api_key}`).expect(200);
    const { accepted_now, previous_key_reasons } = await node(old.nodeId);
    expect(accepted_now).toBe(true);
    expect(codes(previous_key_reasons)).toEqual(['key_rotated', 'overlap_ended']);
    expect(Date.parse(previous_key_reasons[1]!.since!)).toBeGreaterThanOrEqual(firstUse);
  });

  it('reports which request finished the rotation of an app, and who used the old key last', async () => {
    const { appId, headers } = await app.service('ocr', 'recipes');
    await app.admin.post(`/app-credentials/${appId}/rotate`).expect(200);
    await app.validateApp({ ...headers, 'X-Platform-Target': 'recipes' }).expect(200);
    const path = `/app-credentials/${appId}`;
    const open = (await app.admin.get(`${path}/explain`).expect(200)).body as ExplanationResponse;
    expect(open).toMatchObject({
      previous_key_last_accepted_at: expect.any(String) as string,
      previous_key_last_accepted_for: 'recipes',
      current_key_last_accepted_at: null,
    });
    const { headers: finished } = await app.admin.post(`${path}/finish-rotation`).expect(204);
    const { previous_key_reasons } = (await app.admin.get(`${path}/explain`).expect(200)).body as ExplanationResponse;
    expect(previous_key_reasons).toMatchObject([
      { code: 'key_rotated' },
      {
        code: 'overlap_ended',
        detail: expect.stringContaining('finished') as string,
        request_id: finished['x-request-id'],
        actor: 'admin',
      },
    ]);
  });

  it('reports when a node was last accepted, and which service forwarded it', async () => {
    const { nodeId, header } = await app.node();
    await app.validateNode(header).expect(200);
    const lastUse = { last_accepted_at: expect.any(String) as string, last_accepted_for: null };
    expect(await node(nodeId)).toMatchObject(lastUse);
    const { caller, headers } = await app.service('recipes', 'auth');
    await app.validateNode(header).set(headers).expect(200);
    const accepted = await node(nodeId);
    expect(accepted.last_accepted_for).toBe(caller);
    clock.advance({ minutes: 1 });
    expectProblem(await app.validateNode(`${header}x`).set(headers), problems.invalidNodeCredentials);
    expect(await node(nodeId)).toEqual(accepted);
  });

  it('reports that an app credential is for another target, and does not count a refused call as accepted', async () => {
    const { appId, headers, target } = await app.service();
    expectProblem(await app.validateApp(headers, { target: 'ocr' }), problems.invalidAppCredentials);
    const refused = { accepted_now: false, reasons: [{ code: 'other_target', since: null }], last_accepted_at: null };
    expect(await service(appId, '?target=ocr')).toMatchObject(refused);
    expect(await service(appId, `?target=${target}`)).toMatchObject({ accepted_now: true, reasons: [] });
    await app.validateApp(headers, { target }).expect(200);
    const lastUse = { last_accepted_at: expect.any(String) as string, last_accepted_for: target };
    expect(await service(appId)).toMatchObject(lastUse);
  });

  it('reports which request replaced an expired app credential', async () => {
    const pair = { caller: 'tts', target: 'recipes' };
    const expires_at = new Date(clock.now().getTime() + 1_000).toISOString();
    const { body } = await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
    clock.advance({ minutes: 1 });
    const issued = await app.admin.post('/app-credentials', pair).expect(201);
    const { reasons } = await service(body.app_id as string);
    expect(codes(reasons)).toEqual(['revoked', 'expired']);
    expect(reasons[0]).toMatchObject({ request_id: issued.headers['x-request-id'] });
  });

  it('answers 400 to an invalid target, and 401 to callers other than operators', async () => {
    const { appId, headers } = await app.service();
    expectInvalid(await app.admin.get(`/app-credentials/${appId}/explain?target=a%20b`), '/target');
    const asApp = app.get(`/api/v0/admin/app-credentials/${appId}/explain`).set(headers);
    expectProblem(await asApp, problems.invalidAdminKey);
  });
});

describe('GET /api/v0/admin/users/{id}/explain', () => {
  const app = useApp({
    variables: { ...UNLEASED, LOGIN_LIMIT_PER_ACCOUNT: '4/900', LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '5/900' },
    settings: { secondFactorLimitPerAccount: { points: 5, seconds: 900 } },
  });
  const strict = useReplica(app, { variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
  const withoutPasskeys = useReplica(app, { variables: { NODE_ENV: 'production' } });

  const explain = async (id: string, query = '', at = app) =>
    (await at.admin.get(`/users/${id}/explain${query}`).expect(200)).body as UserExplanationResponse;

  it('reports an unknown id with 200, not 404, and an address that is not one with 400', async () => {
    for (const id of ['not-an-id', randomUUID()]) {
      const unknown = { accepted_now: false, methods: [], second_factors: [], reasons: [{ code: 'unknown' }] };
      expect(await explain(id)).toMatchObject(unknown);
    }
    expectInvalid(await app.admin.get(`/users/${randomUUID()}/explain?address=home`), '/address');
  });

  it('reports a disabled account, and one whose address is not verified where that is demanded', async () => {
    const alice = await app.user();
    const none = { methods: [], second_factors: [], reasons: [] };
    expect(await explain(alice.id)).toEqual({ accepted_now: true, email_verified_at: null, ...none });
    expectProblem(await strict.login(alice.email), problems.emailNotVerified);
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    const reasons = [{ code: 'disabled' }, { code: 'email_not_verified' }];
    expect(await explain(alice.id, '', strict)).toMatchObject({ accepted_now: false, reasons });
  });

  it('reports the limit of the account, and spares an address where the account logged in lately, as the login does', async () => {
    const bob = await app.user();
    await bob.logsIn();
    for (let wrong = 0; wrong < 4; wrong += 1) await app.login(bob.email, 'not the password').expect(401);
    await bob.logsIn();
    expect(await explain(bob.id, '?address=127.0.0.1')).toMatchObject({ accepted_now: true, reasons: [] });
    for (const query of ['', '?address=192.0.2.7']) {
      const reasons = [{ code: 'throttled', until: expect.stringMatching(/^20/) as string }];
      expect(await explain(bob.id, query)).toMatchObject({ accepted_now: false, reasons });
    }
  });

  it('reports the limit of the account at one address until its window ends, and counts nothing', async () => {
    const carol = await app.user();
    await carol.logsIn();
    for (let wrong = 0; wrong < 5; wrong += 1) {
      expect((await explain(carol.id, '?address=127.0.0.1')).reasons).toEqual([]);
      await app.login(carol.email, 'not the password').expect(401);
    }
    expectThrottled(await app.login(carol.email));
    const { reasons } = await explain(carol.id, '?address=::ffff:127.0.0.1');
    expect(reasons).toMatchObject([{ code: 'throttled', detail: expect.stringContaining('from this address') }]);
    expect(Date.parse(reasons[0]!.until!)).toBeGreaterThan(Date.now());
    const anywhere = await explain(carol.id);
    expect(anywhere.reasons.map(({ code, address }) => [code, address])).toEqual([
      ['throttled', null],
      ['throttled', '127.0.0.1'],
    ]);
  });

  it('names the factors that a login asks for, and reports codes that are throttled', async () => {
    const owner = await FactorOwner.withTotp(app);
    await owner.registers();
    const methods = ['totp', 'recovery_code', 'passkey'];
    const accepted = { accepted_now: true, methods, second_factors: methods, reasons: [] };
    expect(await explain(owner.user.id)).toMatchObject(accepted);
    const { challenge } = await owner.isChallenged();
    for (let wrong = 0; wrong < 5; wrong += 1) await owner.answers(challenge, 'totp', { code: owner.wrongCode() });
    const reasons = [{ code: 'second_factor_throttled' }, { code: 'second_factor_throttled' }];
    expect(await explain(owner.user.id)).toMatchObject({ accepted_now: true, reasons });
    const left = await explain(owner.user.id, '', withoutPasskeys);
    expect(left).toMatchObject({ accepted_now: false, methods: ['totp', 'recovery_code'], second_factors: methods });
  });

  it('reports a user whose only factors are passkeys where the service accepts none', async () => {
    const owner = await FactorOwner.of(app);
    await owner.registers();
    expect(await explain(owner.user.id)).toMatchObject({ accepted_now: true, methods: ['passkey'] });
    expect(await explain(owner.user.id, '', withoutPasskeys)).toMatchObject({
      accepted_now: false,
      methods: [],
      second_factors: ['passkey'],
      reasons: [{ code: 'second_factor_unusable' }],
    });
  });
});
