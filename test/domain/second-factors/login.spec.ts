import { Database } from '../../../src/foundation/database/database.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { ThrottleWindows } from '../../../src/foundation/throttling/throttle-windows.js';
import { atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { NEW_PASSWORD } from '../../support/owner.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { untilVerdict } from '../../support/until-verdict.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';
import { FactorOwner } from './owner.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

describe('POST /api/v0/auth/login', () => {
  it('answers 403 with a challenge to the right password of a user with a second factor, and begins no session', async () => {
    const owner = await FactorOwner.withTotp(app);
    const sessions = () => app.database.query('SELECT id FROM sessions WHERE user_id = $1', [owner.user.id]);
    const before = await sessions();
    const answer = await app.login(owner.user.email);
    expectProblem(answer, problems.secondFactorRequired);
    expect(answer.body).toMatchObject({ methods: ['totp', 'recovery_code'], challenge: expect.any(String) as string });
    expect(answer.body).not.toHaveProperty('passkey_options');
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(JSON.stringify(app.log.lines)).not.toContain((answer.body as { challenge: string }).challenge);
    expect(await sessions()).toEqual(before);
  });

  it('answers a wrong password as it does without a second factor', async () => {
    const owner = await FactorOwner.withTotp(app);
    const [one, other] = [await app.login(owner.user.email, 'wrong'), await app.login('unknown@example.org', 'wrong')];
    expectProblem(one, problems.invalidCredentials);
    const strip = ({ body }: typeof one) => ({ ...(body as object), request_id: '', instance: '' });
    expect(strip(one)).toEqual(strip(other));
    expect(Object.keys(one.headers)).toEqual(Object.keys(other.headers));
  });
});

describe('POST /api/v0/auth/login/second-factor', () => {
  it('gives the token pair for a code, also through another replica', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    const { body } = await owner.answers(challenge, 'totp', { code: owner.code() }, replica).expect(200);
    expect(Object.keys(body as object).sort()).toEqual(['access_token', 'expires_in', 'refresh_token', 'token_type']);
    await app.me((body as { access_token: string }).access_token).expect(200);
  });

  it('takes another code after a wrong one, and none after a good one: the challenge is used once', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.wrongCode() }), problems.invalidSecondFactor);
    await owner.answers(challenge, 'totp', { code: owner.code() }).expect(200);
    app.clock.advance({ seconds: 60 });
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.code() }), problems.invalidSecondFactor);
  });

  it('accepts a code once, whatever the challenge, and none of a time step before it', async () => {
    const owner = await FactorOwner.withTotp(app);
    const [code, former] = [owner.code(), owner.code(-1)];
    await owner.answers((await owner.isChallenged()).challenge, 'totp', { code }).expect(200);
    for (const used of [code, former]) {
      const { challenge } = await owner.isChallenged();
      expectProblem(await owner.answers(challenge, 'totp', { code: used }), problems.invalidSecondFactor);
    }
  });

  it.each([
    ['totp', (owner: FactorOwner) => owner.code()],
    ['recovery_code', (owner: FactorOwner) => owner.recoveryCodes[0]],
  ])('accepts a code (%s) in exactly one of 10 concurrent logins over two replicas', async (method, read) => {
    const owner = await FactorOwner.withTotp(app);
    const challenges = await atOnce(10, () => owner.isChallenged());
    const proof = { code: read(owner) };
    const answers = await atOnce(10, (i) =>
      untilVerdict(() => owner.answers(challenges[i]!.challenge, method, proof, i % 2 ? app : replica)),
    );
    expect(countByStatus(answers)).toEqual({ 200: 1, 401: 9 });
  });

  it('accepts a challenge in exactly one of 10 concurrent logins, each with a code of its own', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    const answers = await Promise.all(
      owner.recoveryCodes.map((code) => owner.answers(challenge, 'recovery_code', { code })),
    );
    expect(countByStatus(answers)).toEqual({ 200: 1, 401: 9 });
  });

  it('says that an address is not verified to a right code only, which stays usable, and counts both refusals in the audit log', async () => {
    app.clock.enterNextWindow();
    const strict = await app.startReplica({ variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    const wrong = await owner.answers(challenge, 'totp', { code: owner.wrongCode() }, strict);
    expectProblem(wrong, problems.invalidSecondFactor);
    const code = owner.code();
    expectProblem(await owner.answers(challenge, 'totp', { code }, strict), problems.emailNotVerified);
    const rows = await recorded(app, { event: 'user.second_factor.failed', subject: owner.user.id });
    expect(rows).toMatchObject([{ count: 2, details: { reasons: { wrong_code: 1, email_not_verified: 1 } } }]);
    await owner.answers(challenge, 'totp', { code }).expect(200);
    await strict.stop();
  });

  it('refuses the code of another account, and a challenge that was changed', async () => {
    const [owner, other] = [await FactorOwner.withTotp(app), await FactorOwner.withTotp(app)];
    const { challenge } = await owner.isChallenged();
    const code = { code: other.code() };
    // The two apps may show the same code.
    if (![-2, -1, 0, 1, 2].map((offset) => owner.code(offset)).includes(code.code))
      expectProblem(await owner.answers(challenge, 'totp', code), problems.invalidSecondFactor);
    const theirs = Buffer.from((await other.isChallenged()).challenge, 'base64url');
    const mixed = Buffer.from(challenge, 'base64url');
    // The id of the user.
    theirs.copy(mixed, 7, 7, 23);
    const forged = await other.answers(mixed.toString('base64url'), 'totp', { code: other.code() });
    expectProblem(forged, problems.invalidSecondFactor);
    for (const text of ['x', challenge.slice(1), `${challenge}A`])
      expectProblem(await owner.answers(text, 'totp', { code: owner.code() }), problems.invalidSecondFactor);
  });

  it('reads no account for a forged challenge, so that its time does not tell whether the id in it exists', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    const forged = Buffer.from(challenge, 'base64url');
    // The time, of the same account.
    forged.writeUInt8(forged.readUInt8(6) ^ 1, 6);
    const run = jest.spyOn(Database.prototype, 'rows');
    const listStatements = async (text: string): Promise<string[]> => {
      run.mockClear();
      expectProblem(await owner.answers(text, 'totp', { code: owner.wrongCode() }), problems.invalidSecondFactor);
      return run.mock.calls.map(([{ name }]) => name);
    };
    try {
      expect(await listStatements(challenge)).toContain('second_factors_read');
      expect(await listStatements(forged.toString('base64url'))).not.toContain('second_factors_read');
    } finally {
      run.mockRestore();
    }
  });

  it.each([
    ['after 5 minutes', () => app.clock.advance({ minutes: 5, seconds: 1 })],
    [
      'when the password was changed',
      (owner: FactorOwner) => {
        const passwords = { current_password: PASSWORD, new_password: NEW_PASSWORD };
        return owner.post('/password', { ...passwords, code: owner.recoveryCodes[0] }).expect(204);
      },
    ],
    [
      'when the user was disabled',
      ({ user }: FactorOwner) => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200),
    ],
    [
      'when the app was removed',
      (owner: FactorOwner) =>
        owner.post('/totp/remove', { password: PASSWORD, code: owner.recoveryCodes[0] }).expect(204),
    ],
  ])('refuses a challenge %s', async (_name, change) => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    await change(owner);
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.code() }), problems.invalidSecondFactor);
  });

  it('answers 400 for a method without its proof', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    expectInvalid(await owner.answers(challenge, 'totp', {}), '/code');
    expectInvalid(await owner.answers(challenge, 'passkey', {}), '/passkey');
    expectInvalid(await owner.answers(challenge, 'sms', { code: '123456' }), '/method');
    expectInvalid(await owner.answers(challenge, 'totp', { code: 123456 }), '/code');
  });

  it('has no alias without the prefix /api/v0 in the documentation, and answers there as every auth route does', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    const body = { challenge, method: 'totp', code: owner.code() };
    await app.post('/auth/login/second-factor', body).expect(200);
    const { body: document } = await app.get('/docs-json');
    expect(Object.keys((document as { paths: object }).paths)).not.toContain('/auth/login/second-factor');
  });
});

describe('wrong codes of one account', () => {
  const LIMIT = 5;
  const one = useApp({
    variables: UNLEASED,
    settings: { secondFactorLimitPerAccount: { points: LIMIT, seconds: 900 } },
  });
  const two = useReplica(one);

  it('are counted exactly over two replicas: of 20 concurrent ones, only as many as the limit are verified', async () => {
    const owner = await FactorOwner.withTotp(one);
    const { challenge } = await owner.isChallenged();
    const code = owner.wrongCode();
    const answers = await atOnce(20, (i) =>
      untilVerdict(() => owner.answers(challenge, 'totp', { code }, i % 2 ? one : two)),
    );
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 20 - LIMIT });
    const refused = answers.filter(({ status }) => status === 429);
    expect(expectThrottled(refused[0]!)).toMatchObject({ policy: 'second-factor-account', points: LIMIT });
    const late = await owner.answers(challenge, 'totp', { code: owner.code() }, two);
    expectThrottled(late);
    expectThrottled(await owner.answers(challenge, 'recovery_code', { code: owner.recoveryCodes[0] }));
  });

  it('wait in the queue of the network that they come from', async () => {
    const owner = await FactorOwner.withTotp(one);
    const { challenge } = await owner.isChallenged();
    const reserve = jest.spyOn(one.nest.get(ThrottleWindows), 'reservePoints');
    await owner.answers(challenge, 'totp', { code: owner.code() }).expect(200);
    const networks = reserve.mock.calls.map(([, ticket]) => ticket.networks);
    // Of the network, and of the account.
    expect(networks).toEqual([['127.0.0.1'], ['127.0.0.1']]);
    reserve.mockRestore();
  });

  it('do not lock out other accounts, and good codes cost nothing', async () => {
    const owner = await FactorOwner.withTotp(one);
    for (let i = 0; i < LIMIT + 1; i += 1) {
      await owner.logsInWithCode();
      one.clock.advance({ seconds: 30 });
    }
  });
});
