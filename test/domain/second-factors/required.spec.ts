import { problems } from '../../../src/foundation/problems/problems.js';
import { toEnrolmentContext } from '../../../src/domain/second-factors/challenge-contexts.js';
import { Challenges } from '../../../src/domain/challenges/challenges.js';
import { CodeVerifier } from '../../../src/domain/second-factors/codes.js';
import { SecondFactorsService } from '../../../src/domain/second-factors/second-factors.service.js';
import { afterNext, atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { countByStatus } from '../../support/throttled.js';
import { untilVerdict } from '../../support/until-verdict.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';
import { FactorOwner } from './owner.js';

const ENROLMENT = '/api/v0/auth/login/enrolment/totp';

const app = useApp({ variables: UNLEASED });
/** The same service after the operator has set the variable. */
const strict = useReplica(app, { variables: { SECOND_FACTOR_REQUIRED: 'true' } });
const strictToo = useReplica(app, { variables: { SECOND_FACTOR_REQUIRED: '2020-01-01' } });

async function isAskedToEnrol(owner: FactorOwner, at = strict): Promise<string> {
  const answer = await at.login(owner.user.email);
  expectProblem(answer, problems.secondFactorEnrolmentRequired);
  return (answer.body as { challenge: string }).challenge;
}

const begin = (challenge: string, at = strict) => at.post(ENROLMENT, { challenge });
const confirm = (challenge: string, code: string, at = strict) => at.post(`${ENROLMENT}/confirm`, { challenge, code });

/** A user who has begun the enrolment that the login demands. */
async function beginsAtLogin(owner: FactorOwner): Promise<string> {
  const challenge = await isAskedToEnrol(owner);
  const { body } = await begin(challenge).expect(201);
  owner.secret = (body as { secret: string }).secret;
  return challenge;
}

const hasFactor = async ({ user }: FactorOwner) => {
  const { body } = await app.admin.get(`/users/${user.id}/explain`).expect(200);
  return (body as { second_factors: string[] }).second_factors.length > 0;
};

describe('SECOND_FACTOR_REQUIRED', () => {
  it('answers the right password of a user without a factor with a challenge that enrols one, after which a code logs in', async () => {
    const owner = await FactorOwner.of(app);
    expectProblem(await strict.login(owner.user.email, 'wrong'), problems.invalidCredentials);
    const challenge = await beginsAtLogin(owner);
    expect(await owner.isLive()).toBe(true);
    const { body, headers } = await confirm(challenge, owner.code()).expect(200);
    expect((body as { recovery_codes: string[] }).recovery_codes).toHaveLength(10);
    expect(headers['cache-control']).toBe('no-store');
    expect(JSON.stringify(strict.log.lines)).not.toContain(challenge);
    // A session that a thief of the password began would go on otherwise.
    expect(await owner.isLive()).toBe(false);
    app.clock.advance({ seconds: 60 });
    const tokens = await owner.logsInWithCode(strict);
    await strict.refresh(tokens.refresh_token).expect(200);
    expect(await recorded(app, { event: 'user.totp.enrolled', subject: owner.user.id })).toMatchObject([
      { actor: { door: 'user', id: owner.user.id }, details: { ended_sessions: 1 } },
    ]);
  });

  it('asks for the same enrolment as an account does: a lost answer is repeated, and the last secret counts', async () => {
    const owner = await FactorOwner.of(app);
    const challenge = await beginsAtLogin(owner);
    const former = owner.code();
    const { body } = await begin(challenge).expect(201);
    expect(Object.keys(body as object).sort()).toEqual(['otpauth_url', 'qr_svg', 'secret']);
    owner.secret = (body as { secret: string }).secret;
    if (former !== owner.code()) expectProblem(await confirm(challenge, former), problems.invalidSecondFactor);
    await confirm(challenge, owner.code()).expect(200);
  });

  it('lets the challenge do nothing else, and no other challenge enrol', async () => {
    const [owner, other] = [await FactorOwner.of(app), await FactorOwner.withTotp(app)];
    const challenge = await beginsAtLogin(owner);
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.code() }, strict), problems.invalidSecondFactor);
    const { challenge: ofLogin } = await other.isChallenged(strict);
    expectProblem(await begin(ofLogin), problems.invalidSecondFactor);
    expectProblem(await confirm(ofLogin, other.code()), problems.invalidSecondFactor);
    for (const text of ['x', `${challenge}A`]) expectProblem(await begin(text), problems.invalidSecondFactor);
    expectInvalid(await strict.post(ENROLMENT, {}), '/challenge');
    expectInvalid(await strict.post(`${ENROLMENT}/confirm`, { challenge }), '/code');
    expect(await hasFactor(owner)).toBe(false);
  });

  it.each<[string, (owner: FactorOwner) => unknown]>([
    ['after 5 minutes', () => app.clock.advance({ minutes: 5, seconds: 1 })],
    ['when the password was changed', (owner) => owner.changePassword().expect(204)],
    [
      'when the user was disabled',
      ({ user }) => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200),
    ],
    ['when a passkey was added, which the password alone must not add to', (owner) => owner.registers()],
    [
      'when it was used, also after an operator removed the factors',
      async (owner) => {
        const challenge = await beginsAtLogin(owner);
        await confirm(challenge, owner.code()).expect(200);
        await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
      },
    ],
  ])('refuses the challenge %s', async (_name, change) => {
    const owner = await FactorOwner.of(app);
    const challenge = await beginsAtLogin(owner);
    await change(owner);
    const sql = 'SELECT confirmed_at FROM totp_factors WHERE user_id = $1';
    const before = await app.database.query(sql, [owner.user.id]);
    expectProblem(await confirm(challenge, owner.code()), problems.invalidSecondFactor);
    expectProblem(await begin(challenge), problems.invalidSecondFactor);
    expect(await app.database.query(sql, [owner.user.id])).toEqual(before);
  });

  it('confirms nothing for a user who got a factor, or another password, while the code was verified', async () => {
    for (const change of [(owner: FactorOwner) => owner.registers(), (owner: FactorOwner) => owner.changePassword()]) {
      const owner = await FactorOwner.of(app);
      const challenge = await beginsAtLogin(owner);
      afterNext(strict.nest.get(CodeVerifier), 'verifyEnrolmentCode', () => change(owner));
      expectProblem(await confirm(challenge, owner.code()), problems.invalidSecondFactor);
      const rows = await app.database.query('SELECT 1 FROM recovery_codes WHERE user_id = $1', [owner.user.id]);
      expect(rows).toEqual([]);
    }
  });

  it('refuses the challenge where no factor is required, and one that a reader of MASTER_KEY forged without the stored hash', async () => {
    const owner = await FactorOwner.of(app);
    const challenge = await beginsAtLogin(owner);
    expectProblem(await begin(challenge, app), problems.invalidSecondFactor);
    expectProblem(await confirm(challenge, owner.code(), app), problems.invalidSecondFactor);
    const known = await strict.nest.get(SecondFactorsService).findUser(owner.user.id);
    const forge = (passwordHashDigest: string) => {
      const context = toEnrolmentContext({ ...known, passwordHashDigest });
      return strict.nest.get(Challenges).issueChallenge('enrolment', owner.user.id, context);
    };
    expectProblem(await begin(await forge('')), problems.invalidSecondFactor);
    await begin(await forge(known.passwordHashDigest)).expect(201);
  });

  it('takes another code after a wrong one, and confirms by exactly one of 10 concurrent calls over two replicas', async () => {
    const owner = await FactorOwner.of(app);
    const challenge = await beginsAtLogin(owner);
    expectProblem(await confirm(challenge, owner.wrongCode()), problems.invalidSecondFactor);
    const answers = await atOnce(10, (i) =>
      untilVerdict(() => confirm(challenge, owner.code(), i % 2 ? strict : strictToo)),
    );
    expect(countByStatus(answers)).toEqual({ 200: 1, 401: 9 });
  });

  it('refreshes no session that began without a factor, and lets it go on when the operator takes the rule back', async () => {
    const [owner, enrolled] = [await FactorOwner.of(app), await FactorOwner.withTotp(app)];
    const { refresh_token: current } = owner.tokens;
    const before = strict.log.lines.length;
    expectProblem(await strict.refresh(current), problems.invalidRefreshToken);
    const { body } = await app.refresh(current).expect(200);
    // The parent, within the grace, and the successor.
    for (const token of [current, (body as { refresh_token: string }).refresh_token])
      expectProblem(await strict.refresh(token), problems.invalidRefreshToken);
    await app.refresh((body as { refresh_token: string }).refresh_token).expect(200);
    const refused = strict.log.lines.slice(before).filter(({ event }) => event === 'session.refresh.refused');
    expect(refused.map(({ reason }) => reason)).toEqual(['no_second_factor', 'no_second_factor', 'no_second_factor']);

    const withFactor = await enrolled.logsInWithCode();
    await strict.refresh(withFactor.refresh_token).expect(200);
  });

  it('still ends a session whose superseded token is replayed', async () => {
    const owner = await FactorOwner.of(app);
    const next = (await app.refresh(owner.tokens.refresh_token).expect(200)).body as { refresh_token: string };
    await app.refresh(next.refresh_token).expect(200);
    expectProblem(await strict.refresh(owner.tokens.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.me(owner.tokens.access_token), problems.invalidAccessToken);
  });

  it('keeps the last factor of an account, and an unused code; another factor may be removed, and an operator removes all', async () => {
    const owner = await FactorOwner.withTotp(app);
    const tokens = await owner.logsInWithCode(strict);
    const remove = (code: string | undefined) =>
      strict
        .post('/api/v0/users/me/totp/remove', { password: PASSWORD, code })
        .set('Authorization', `Bearer ${tokens.access_token}`);
    const code = owner.recoveryCodes.pop();
    expectProblem(await remove(code), problems.lastSecondFactor);
    await owner.registers();
    await remove(code).expect(204);
    const [id] = await owner.passkeyIds();
    const passkey = await owner.freshPasskey(owner.authenticator!);
    const refused = await owner.post(`/passkeys/${id}/remove`, { password: PASSWORD, passkey }, strict);
    expectProblem(refused, problems.lastSecondFactor);
    await strict.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    await isAskedToEnrol(owner);
  });

  it('tells operators why a login of a user without a factor is not accepted', async () => {
    const owner = await FactorOwner.of(app);
    const { body } = await strict.admin.get(`/users/${owner.user.id}/explain`).expect(200);
    expect(body).toMatchObject({ accepted_now: false, reasons: [{ code: 'second_factor_missing' }] });
  });

  it('holds from the midnight (UTC) that begins the date, by the clock of PostgreSQL', async () => {
    const DAY_MS = 86_400_000;
    // Not tomorrow, which may begin during the test.
    const start = new Date(app.clock.now().getTime() + 2 * DAY_MS);
    const SECOND_FACTOR_REQUIRED = start.toISOString().slice(0, 10);
    const dated: TestApp = await app.startReplica({ variables: { SECOND_FACTOR_REQUIRED } });
    const owner = await FactorOwner.of(app);
    const { body } = await dated.login(owner.user.email).expect(200);
    app.clock.advance({ days: 2 });
    await isAskedToEnrol(owner, dated);
    const refreshed = await dated.refresh((body as { refresh_token: string }).refresh_token);
    expectProblem(refreshed, problems.invalidRefreshToken);
    await dated.stop();
  });
});
