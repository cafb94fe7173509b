import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { FactorOwner } from '../second-factors/owner.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { expectThrottled } from '../support/throttled.js';
import { useApp, useReplica } from '../support/use-app.js';

interface Explanation {
  readonly accepted_now: boolean;
  readonly methods: string[];
  readonly second_factors: string[];
  readonly email_verified_at: string | null;
  readonly reasons: { code: string; detail: string; until: string | null }[];
}

describe('GET /api/v0/admin/users/{id}/explain', () => {
  const app = useApp({
    variables: { LOGIN_LIMIT_PER_ACCOUNT: '4/900', LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '5/900' },
    settings: { secondFactorLimitPerAccount: { points: 5, seconds: 900 } },
  });
  const strict = useReplica(app, { variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
  const withoutPasskeys = useReplica(app, { variables: { NODE_ENV: 'production' } });

  const explain = async (id: string, query = '', at = app) =>
    (await at.admin.get(`/users/${id}/explain${query}`).expect(200)).body as Explanation;
  const codes = ({ reasons }: Explanation) => reasons.map(({ code }) => code);

  it('reports an unknown id with 200, not 404, and an address that is not one with 400', async () => {
    for (const id of ['not-an-id', randomUUID()]) {
      const explanation = await explain(id);
      expect(explanation).toMatchObject({ accepted_now: false, methods: [], second_factors: [] });
      expect(codes(explanation)).toEqual(['unknown']);
    }
    expectInvalid(await app.admin.get(`/users/${randomUUID()}/explain?address=home`), '/address');
  });

  it('reports a disabled account, and one whose address is not verified where that is demanded', async () => {
    const alice = await app.user();
    const none = { methods: [], second_factors: [], reasons: [] };
    expect(await explain(alice.id)).toEqual({ accepted_now: true, email_verified_at: null, ...none });
    expectProblem(await strict.login(alice.email), problems.emailNotVerified);
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    const explanation = await explain(alice.id, '', strict);
    expect(explanation.accepted_now).toBe(false);
    expect(codes(explanation)).toEqual(['disabled', 'email_not_verified']);
  });

  it('reports the limit of the account, and spares an address where the account logged in lately, as the login does', async () => {
    const bob = await app.user();
    await bob.logsIn();
    for (let wrong = 0; wrong < 4; wrong += 1) await app.login(bob.email, 'not the password').expect(401);
    await bob.logsIn();
    expect(await explain(bob.id, '?address=127.0.0.1')).toMatchObject({ accepted_now: true, reasons: [] });
    for (const query of ['', '?address=192.0.2.7']) {
      const { accepted_now, reasons } = await explain(bob.id, query);
      expect(accepted_now).toBe(false);
      expect(reasons).toMatchObject([{ code: 'throttled', until: expect.stringMatching(/^20/) }]);
    }
  });

  it('reports the limit of the account at one address until its window ends, and counts nothing', async () => {
    const carol = await app.user();
    await carol.logsIn();
    for (let wrong = 0; wrong < 5; wrong += 1) {
      expect(codes(await explain(carol.id, '?address=127.0.0.1'))).toEqual([]);
      await app.login(carol.email, 'not the password').expect(401);
    }
    expectThrottled(await app.login(carol.email));
    const { reasons } = await explain(carol.id, '?address=::ffff:127.0.0.1');
    expect(reasons).toMatchObject([{ code: 'throttled', detail: expect.stringContaining('from this address') }]);
    expect(Date.parse(reasons[0]!.until!)).toBeGreaterThan(Date.now());
  });

  it('names the factors that a login asks for, and reports codes that are throttled', async () => {
    const owner = await FactorOwner.withTotp(app);
    await owner.registers();
    const methods = ['totp', 'recovery_code', 'passkey'];
    const accepted = { accepted_now: true, methods, second_factors: methods, reasons: [] };
    expect(await explain(owner.user.id)).toMatchObject(accepted);
    const { challenge } = await owner.isChallenged();
    for (let wrong = 0; wrong < 5; wrong += 1) await owner.answers(challenge, 'totp', { code: owner.wrongCode() });
    const throttled = await explain(owner.user.id);
    expect(throttled.accepted_now).toBe(true);
    expect(codes(throttled)).toEqual(['second_factor_throttled', 'second_factor_throttled']);
    const left = await explain(owner.user.id, '', withoutPasskeys);
    expect(left).toMatchObject({ accepted_now: false, methods: ['totp', 'recovery_code'], second_factors: methods });
  });

  it('reports a user whose only factors are passkeys where the service accepts none', async () => {
    const owner = await FactorOwner.of(app);
    await owner.registers();
    expect(await explain(owner.user.id)).toMatchObject({ accepted_now: true, methods: ['passkey'] });
    const explanation = await explain(owner.user.id, '', withoutPasskeys);
    expect(explanation).toMatchObject({ accepted_now: false, methods: [], second_factors: ['passkey'] });
    expect(codes(explanation)).toEqual(['second_factor_unusable']);
  });
});
