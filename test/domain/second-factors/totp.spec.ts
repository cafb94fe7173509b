import { problems } from '../../../src/foundation/problems/problems.js';
import { CodeVerifier } from '../../../src/domain/second-factors/codes.js';
import { computeTotpCode, findTimeStep } from '../../../src/domain/second-factors/totp.js';
import { afterNext, atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { countByStatus } from '../../support/throttled.js';
import { untilVerdict } from '../../support/until-verdict.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner } from './owner.js';

/** RFC 6238, appendix B, with SHA-1: the last six of its eight digits. */
const VECTORS: [seconds: number, code: string][] = [
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_111_111_111, '050471'],
  [1_234_567_890, '005924'],
  [2_000_000_000, '279037'],
  [20_000_000_000, '353130'],
];
const SECRET = Buffer.from('12345678901234567890');
const WRONG_CODES_A_WEEK = 50;

describe('codes of an authenticator app', () => {
  it.each(VECTORS)('are those of RFC 6238 at %d seconds', (seconds, code) => {
    const step = Math.floor(seconds / 30);
    expect(computeTotpCode(SECRET, step)).toBe(code);
    expect(findTimeStep(SECRET, code, new Date(seconds * 1_000))).toBe(step);
  });

  it('are accepted one step early and one step late, and no further', () => {
    const now = new Date(1_234_567_890_000);
    const step = 1_234_567_890 / 30;
    const found = [-2, -1, 0, 1, 2].map((offset) => findTimeStep(SECRET, computeTotpCode(SECRET, step + offset), now));
    expect(found).toEqual([undefined, step - 1, step, step + 1, undefined]);
  });
});

const app = useApp({ variables: { ...UNLEASED, PRODUCT_NAME: 'Röst & Söhne' } });

describe('POST /api/v0/users/me/totp', () => {
  const replica = useReplica(app);

  it('returns the secret as text, as the URI that apps read, and as a QR code', async () => {
    const owner = await FactorOwner.of(app);
    const { body, headers } = await owner.post('/totp', { password: PASSWORD }).expect(201);
    const { secret, otpauth_url, qr_svg } = body as Record<string, string>;
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    const url = new URL(otpauth_url!);
    expect(url.protocol).toBe('otpauth:');
    expect(decodeURIComponent(url.pathname)).toContain(owner.user.email);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      secret,
      issuer: 'Röst & Söhne',
      digits: '6',
      period: '30',
      algorithm: 'SHA1',
    });
    expect(qr_svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"[^<]*><path[^<]*><path[^<]*><\/svg>$/);
    expect(Buffer.byteLength(qr_svg!)).toBeLessThan(32_768);
    expect(headers['cache-control']).toBe('no-store');
  });

  it('changes nothing for logins before it is confirmed, and can be begun anew', async () => {
    const owner = await FactorOwner.of(app);
    await owner.post('/totp', { password: PASSWORD }).expect(201);
    expect((await owner.get('/totp').expect(200)).body).toEqual({ is_confirmed: false, recovery_codes_left: 0 });
    await app.login(owner.user.email).expect(200);
    await owner.enrols();
    expect((await owner.get('/totp').expect(200)).body).toEqual({ is_confirmed: true, recovery_codes_left: 10 });
    await owner.isChallenged();
  });

  it('needs the password, whose wrong guesses are counted as failed logins', async () => {
    const owner = await FactorOwner.of(app);
    expectProblem(await owner.post('/totp', { password: 'wrong' }), problems.wrongPassword);
    expectInvalid(await owner.post('/totp', {}), '/password');
    expectProblem(await owner.get('/totp'), problems.notFound);
    const failed = await recorded(app, { event: 'user.login.failed', subject: owner.user.id });
    expect(failed).toMatchObject([{ count: 1 }]);
  });

  it('is not confirmed by a wrong code, nor without an enrolment', async () => {
    const owner = await FactorOwner.of(app);
    expectProblem(await owner.post('/totp/confirm', { code: '123456' }), problems.wrongSecondFactor);
    await owner.begins();
    expectProblem(await owner.post('/totp/confirm', { code: owner.wrongCode() }), problems.wrongSecondFactor);
    await app.login(owner.user.email).expect(200);
  });

  it('whose wrong codes are used up locks no later enrolment, and no login', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    const wrong = { code: owner.wrongCode() };
    for (let i = 0; i < WRONG_CODES_A_WEEK; i += 1)
      expectProblem(await owner.post('/totp/confirm', wrong), problems.wrongSecondFactor);
    await owner.post('/totp/confirm', { code: owner.code() }).expect(429);
    app.clock.advance({ seconds: 1 });
    await owner.enrols();
    app.clock.advance({ seconds: 60 });
    await owner.logsInWithCode();
  });

  it('can be confirmed after any number of codes that were sent without an enrolment', async () => {
    const owner = await FactorOwner.of(app);
    for (let i = 0; i < 7; i += 1)
      expectProblem(await owner.post('/totp/confirm', { code: '000000' }), problems.wrongSecondFactor);
    await owner.enrols();
  });

  it('is confirmed by exactly one of 20 concurrent calls over two replicas', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    const answers = await atOnce(20, (i) =>
      untilVerdict(() => owner.post('/totp/confirm', { code: owner.code() }, i % 2 ? app : replica)),
    );
    expect(countByStatus(answers)).toEqual({ 200: 1, 409: 19 });
    expect((await owner.get('/totp')).body).toEqual({ is_confirmed: true, recovery_codes_left: 10 });
  });

  it.each([
    ['a code', (owner: FactorOwner) => owner.code()],
    ['a recovery code, because the app may be lost', (owner: FactorOwner) => owner.recoveryCodes[3]],
  ])('is removed with the password and %s, and its recovery codes with it', async (_name, prove) => {
    const owner = await FactorOwner.withTotp(app);
    const code = prove(owner);
    expectProblem(await owner.post('/totp/remove', { password: 'wrong', code }), problems.wrongPassword);
    expectProblem(await owner.post('/totp/remove', { password: PASSWORD, code: owner.wrongCode() }), problems.wrongSecondFactor); // oxfmt-ignore
    await owner.post('/totp/remove', { password: PASSWORD, code }).expect(204);
    await app.login(owner.user.email).expect(200);
    expectProblem(await owner.get('/totp'), problems.notFound);
    const rows = await app.database.query('SELECT 1 FROM recovery_codes WHERE user_id = $1', [owner.user.id]);
    expect(rows).toEqual([]);
  });

  it('is removed by exactly one of 5 concurrent calls with one code', async () => {
    const owner = await FactorOwner.withTotp(app);
    const body = { password: PASSWORD, code: owner.code() };
    const answers = await atOnce(5, () => owner.post('/totp/remove', body));
    // A call that begins after the removal finds no app: 404.
    for (const { status } of answers) expect([204, 403, 404]).toContain(status);
    expect(countByStatus(answers)[204]).toBe(1);
    expect(await recorded(app, { event: 'user.totp.removed', subject: owner.user.id })).toHaveLength(1);
  });

  it('answers 403, not 401, to a wrong code of a user who is logged in: the access token stays valid', async () => {
    app.clock.enterNextWindow();
    const owner = await FactorOwner.withTotp(app);
    const wrong = { password: PASSWORD, code: owner.wrongCode() };
    for (const path of ['/totp/remove', '/recovery-codes'])
      expectProblem(await owner.post(path, wrong), problems.wrongSecondFactor);
    const used = { password: PASSWORD, code: owner.code() };
    await owner.post('/recovery-codes', used).expect(200);
    expectProblem(await owner.post('/totp/remove', used), problems.wrongSecondFactor);
    const without = await FactorOwner.of(app);
    expectProblem(await without.post('/totp/remove', wrong), problems.notFound);
    await app.me(owner.tokens.access_token).expect(200);
    const rows = await recorded(app, { event: 'user.second_factor.failed', subject: owner.user.id });
    expect(rows).toMatchObject([{ count: 3, details: { reasons: { wrong_code: 2, repeated_code: 1 } } }]);
  });

  it('is void after a change of the password, as the options of a passkey are, until it is begun anew', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    const passkey = new Authenticator().create(await owner.creationOptions());
    const password = `${PASSWORD} 2`;
    await owner.post('/password', { current_password: PASSWORD, new_password: password }).expect(204);
    expectProblem(await owner.post('/totp/confirm', { code: owner.code() }), problems.wrongSecondFactor);
    expectInvalid(await owner.offers(passkey), '/passkey');
    await app.login(owner.user.email, password).expect(200);
    await owner.begins(password);
    await owner.post('/totp/confirm', { code: owner.code() }).expect(200);
  });

  it('is void after a passkey was added, so that a thief of a token who began it adds no factor without a fresh one', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    await owner.registers();
    expectProblem(await owner.post('/totp/confirm', { code: owner.code() }), problems.wrongSecondFactor);
    expect((await owner.get('/totp')).body).toMatchObject({ is_confirmed: false });
    const { body } = await owner.post('/totp', await owner.proof()).expect(201);
    owner.secret = (body as { secret: string }).secret;
    await owner.post('/totp/confirm', { code: owner.code() }).expect(200);
  });

  it('is void after a passkey was added while its code was verified', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    afterNext(app.nest.get(CodeVerifier), 'verifyEnrolmentCode', () => owner.registers());
    expectProblem(await owner.post('/totp/confirm', { code: owner.code() }), problems.wrongSecondFactor);
    expect((await owner.get('/totp')).body).toMatchObject({ is_confirmed: false });
  });
});

describe('recovery codes', () => {
  it('work once each, in any case and without their dashes, in the place of a code', async () => {
    const owner = await FactorOwner.withTotp(app);
    const [first = '', second = ''] = owner.recoveryCodes;
    expect(new Set(owner.recoveryCodes).size).toBe(10);
    for (const code of owner.recoveryCodes) expect(code).toMatch(/^([a-z2-7]{4}-){7}[a-z2-7]{4}$/);
    const one = await owner.isChallenged();
    expect(one.methods).toEqual(['totp', 'recovery_code']);
    await owner.answers(one.challenge, 'recovery_code', { code: first }).expect(200);
    const two = await owner.isChallenged();
    expectProblem(await owner.answers(two.challenge, 'recovery_code', { code: first }), problems.invalidSecondFactor);
    const spelled = second.toUpperCase().replaceAll('-', ' ');
    await owner.answers(two.challenge, 'recovery_code', { code: spelled }).expect(200);
    expect((await owner.get('/totp')).body).toEqual({ is_confirmed: true, recovery_codes_left: 8 });
  });

  it('of another account are refused', async () => {
    const [owner, other] = [await FactorOwner.withTotp(app), await FactorOwner.withTotp(app)];
    const { challenge } = await owner.isChallenged();
    const answer = await owner.answers(challenge, 'recovery_code', { code: other.recoveryCodes[0] });
    expectProblem(answer, problems.invalidSecondFactor);
  });

  it('are replaced with the password and a code, and the former ones are void', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { body } = await owner.post('/recovery-codes', { password: PASSWORD, code: owner.code() }).expect(200);
    const { recovery_codes } = body as { recovery_codes: string[] };
    expect(recovery_codes).toHaveLength(10);
    const { challenge } = await owner.isChallenged();
    const former = await owner.answers(challenge, 'recovery_code', { code: owner.recoveryCodes[0] });
    expectProblem(former, problems.invalidSecondFactor);
    await owner.answers(challenge, 'recovery_code', { code: recovery_codes[0] }).expect(200);
  });
});
