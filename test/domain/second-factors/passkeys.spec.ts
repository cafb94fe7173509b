import { PasskeyVerifier } from '../../../src/domain/second-factors/passkey-verifier.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { readClaims } from '../../../tools/read-claims.js';
import { afterNext, atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import type { Tokens } from '../../support/test-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner, logInAlone, logInWithPasskey, passkeyOptions } from './owner.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

describe('/api/v0/users/me/passkeys', () => {
  it('registers, lists, renames and removes passkeys', async () => {
    const owner = await FactorOwner.of(app);
    const options = await owner.creationOptions();
    expect(options).toMatchObject({
      rp: { id: 'localhost' },
      user: { name: owner.user.email },
      attestation: 'none',
      authenticatorSelection: { residentKey: 'required' },
    });
    owner.authenticator = new Authenticator();
    const passkey = owner.authenticator.create(options);
    const { body, headers } = await owner.post('/passkeys', { name: 'phone', passkey }).expect(201);
    const { id } = body as { id: string };
    expect(headers.location).toBe(`/api/v0/users/me/passkeys/${id}`);
    const listed = { id, name: 'phone', is_synced: false, created_at: expect.any(String), last_used_at: null };
    expect((await owner.get('/passkeys').expect(200)).body).toEqual({ items: [listed] });
    const renamed = await owner.as(app.patch(headers.location!, { name: 'old phone' })).expect(200);
    expect(renamed.body).toMatchObject({ name: 'old phone' });
    const remove = (proof: object) => owner.post(`/passkeys/${id}/remove`, proof);
    expectProblem(await remove({ password: 'wrong' }), problems.wrongPassword);
    await remove(await owner.proof()).expect(204);
    expectProblem(await remove({ password: PASSWORD }), problems.notFound);
    expect((await owner.get('/passkeys')).body).toEqual({ items: [] });
    await app.login(owner.user.email).expect(200);
  });

  it('limits renamings, each of which is an audit event, and does not count calls without a valid token', async () => {
    const limited = await app.startReplica({
      variables: { TRUST_PROXY: '1' },
      settings: { secondFactorLimitPerAddress: { points: 3, seconds: 900 } },
    });
    const owner = await FactorOwner.of(app);
    await owner.registers();
    const path = `/api/v0/users/me/passkeys/${(await owner.passkeyIds())[0]}`;
    const rename = (name: string) => limited.patch(path, { name }).set('X-Forwarded-For', '192.0.2.7');
    for (let call = 0; call < 5; call += 1) expectProblem(await rename('x'), problems.missingAccessToken);
    for (const name of ['a', 'b', 'c']) await owner.as(rename(name)).expect(200);
    expectThrottled(await owner.as(rename('d')));
    const subject = owner.user.id;
    expect(await recorded(app, { event: 'user.passkey.renamed', subject })).toHaveLength(3);
    await limited.stop();
  });

  it('hides the passkeys of other users', async () => {
    const [owner, other] = [await FactorOwner.of(app), await FactorOwner.of(app)];
    await owner.registers();
    const [id] = await owner.passkeyIds();
    expectProblem(await other.as(app.patch(`/api/v0/users/me/passkeys/${id}`, { name: 'mine' })), problems.notFound);
    expectProblem(await other.removesPasskey(id), problems.notFound);
    expectProblem(await other.removesPasskey('x'), problems.notFound);
  });

  it('needs the password for the options, and accepts an answer to them once', async () => {
    const owner = await FactorOwner.of(app);
    expectProblem(await owner.post('/passkeys/options', { password: 'wrong' }), problems.wrongPassword);
    const options = await owner.creationOptions();
    const passkey = new Authenticator().create(options);
    await owner.offers(passkey, replica).expect(201);
    expectInvalid(await owner.offers(passkey), '/passkey');
    expectInvalid(await owner.offers(new Authenticator().create(options)), '/passkey');
  });

  it.each([
    ['of another origin', { origin: 'https://evil.example' }, {}],
    ['of another relying party', { rpId: 'evil.example' }, {}],
    ['made in a frame of a page of another origin', {}, { crossOrigin: true }],
    ['made in a frame that names its origin', {}, { crossOrigin: true, topOrigin: 'https://evil.example' }],
    ['made in a frame that only names its origin', {}, { topOrigin: 'https://evil.example' }],
  ])('refuses a passkey %s', async (_name, options, clientData) => {
    const owner = await FactorOwner.of(app);
    const authenticator = new Authenticator(options);
    authenticator.clientData = { ...authenticator.clientData, ...clientData };
    expectInvalid(await owner.offers(authenticator.create(await owner.creationOptions())), '/passkey');
  });

  it('refuses an RSA key of fewer than 2,048 bits, and accepts one of 2,048', async () => {
    const owner = await FactorOwner.of(app);
    const weak = new Authenticator({ rsaBits: 2040 }).create(await owner.creationOptions());
    expectInvalid(await owner.offers(weak), '/passkey');
    const accepted = await owner.registers(new Authenticator({ rsaBits: 2048 }));
    expect((await logInAlone(app, accepted)).status).toBe(200);
  });

  it('refuses certificates of the authenticator, whose revocation would be looked up on the network', async () => {
    const owner = await FactorOwner.of(app);
    const statement = new Map<string, unknown>([['alg', -7], ['sig', Buffer.alloc(70)], ['x5c', Buffer.alloc(9)]]); // oxfmt-ignore
    expectInvalid(await owner.offers(new Authenticator().create(await owner.creationOptions(), statement)), '/passkey');
  });

  it('refuses the options of another user, old options, and what is not the answer of a browser', async () => {
    const [owner, other] = [await FactorOwner.of(app), await FactorOwner.of(app)];
    expectInvalid(await owner.offers(new Authenticator().create(await other.creationOptions())), '/passkey');
    // The authenticator states another id.
    const fresh = new Authenticator().create(await owner.creationOptions());
    const id = Buffer.alloc(32, 7).toString('base64url');
    expectInvalid(await owner.offers({ ...fresh, id, rawId: id }), '/passkey');
    const options = await owner.creationOptions();
    app.clock.advance({ minutes: 5, seconds: 1 });
    const late = new Authenticator().create(options);
    for (const broken of [late, {}, { ...late, id: 7 }, { ...late, response: {} }, { ...late, rawId: 'other' }])
      expectInvalid(await owner.offers(broken), '/passkey');
    expectInvalid(await owner.post('/passkeys', { name: 'phone' }), '/passkey');
    await owner.offers({ ...late, clientExtensionResults: { list: [1] } }).expect(400);
  });

  it('accepts a passkey in one of 5 concurrent registrations of as many users', async () => {
    const owners = await atOnce(5, () => FactorOwner.of(app));
    const authenticator = new Authenticator();
    const options = await atOnce(5, (i) => owners[i]!.creationOptions());
    const answers = await atOnce(5, (i) => owners[i]!.offers(authenticator.create(options[i]!)));
    expect(countByStatus(answers)).toEqual({ 201: 1, 409: 4 });
    for (const answer of answers) if (answer.status === 409) expectProblem(answer, problems.passkeyExists);
  });

  it('accepts 20 passkeys of one user', async () => {
    const owner = await FactorOwner.of(app);
    await owner.registers();
    const copy = `INSERT INTO passkeys
        (id, user_id, credential_id, public_key, counter, transports, is_synced, name, created_at)
      SELECT gen_random_uuid(), user_id, sha256(credential_id || n::text::bytea), public_key, 0, transports, is_synced,
        'copy', created_at
      FROM (SELECT * FROM passkeys WHERE user_id = $1 LIMIT 1) known, generate_series(1, $2::integer) n`;
    await app.database.query(copy, [owner.user.id, 18]);
    const passkey = new Authenticator().create(await owner.creationOptions());
    // The limit does not rely on the options, which are void when the user has another passkey since.
    await app.database.query(copy.replace('n::text', "'19'"), [owner.user.id, 1]);
    expectProblem(await owner.offers(passkey), problems.tooManyPasskeys);
    const [id] = (await owner.passkeyIds()).reverse();
    await app.database.query('DELETE FROM passkeys WHERE id = $1', [id]);
    await owner.offers(passkey).expect(201);
    expectProblem(await owner.post('/passkeys/options', await owner.proof()), problems.tooManyPasskeys);
  });
});

describe('a passkey as second factor', () => {
  it('answers the challenge of a login, whose options name the passkeys of the user, also without a verification of the user', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers(new Authenticator({ verifiesUser: false }));
    const { methods, challenge, passkey_options } = await owner.isChallenged();
    expect(methods).toEqual(['passkey']);
    expect(passkey_options).toMatchObject({ allowCredentials: [{ id: authenticator.id.toString('base64url') }] });
    expect(passkey_options.challenge).toBe(challenge);
    const passkey = authenticator.get(passkey_options);
    const { body } = await owner.answers(challenge, 'passkey', { passkey }, replica).expect(200);
    const { access_token } = body as { access_token: string };
    expect(readClaims(access_token).amr).toEqual(['pwd', 'hwk', 'user', 'mfa']);
    expectProblem(await owner.answers(challenge, 'passkey', { passkey }), problems.invalidSecondFactor);
    expectProblem(await logInAlone(app, authenticator), problems.invalidPasskey);
  });

  it('of another user, or with the signature of another challenge, is refused', async () => {
    const [owner, other] = [await FactorOwner.of(app), await FactorOwner.of(app)];
    const [mine, theirs] = [await owner.registers(), await other.registers()];
    const { challenge } = await owner.isChallenged();
    const answers = [
      theirs.get({ challenge }),
      mine.get({ challenge: (await owner.isChallenged()).challenge }),
      { ...mine.get({ challenge }), id: theirs.id.toString('base64url'), rawId: theirs.id.toString('base64url') },
      new Authenticator().get({ challenge }),
    ];
    for (const passkey of answers)
      expectProblem(await owner.answers(challenge, 'passkey', { passkey }), problems.invalidSecondFactor);
  });

  it('is refused when its counter has not increased, which is in the audit log', async () => {
    app.clock.enterNextWindow();
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    expect((await owner.answersWith(authenticator)).status).toBe(200);
    for (const counter of [authenticator.counter - 1, -1]) {
      authenticator.counter = counter;
      expectProblem(await owner.answersWith(authenticator), problems.invalidSecondFactor);
    }
    const rows = await recorded(app, { event: 'user.second_factor.failed', subject: owner.user.id });
    expect(rows).toMatchObject([{ count: 2, details: { reasons: { counter_not_increased: 2 } } }]);
  });

  it.each([true, false])(
    'is refused when it says that it may be copied, or no longer says so (%p)',
    async (isSynced) => {
      app.clock.enterNextWindow();
      const owner = await FactorOwner.of(app);
      const authenticator = await owner.registers(new Authenticator({ isSynced: !isSynced }));
      authenticator.isSynced = isSynced;
      expectProblem(await owner.answersWith(authenticator), problems.invalidSecondFactor);
      expectProblem(await logInAlone(app, authenticator), problems.invalidPasskey);
      const rows = await recorded(app, { event: 'user.second_factor.failed', subject: owner.user.id });
      expect(rows).toMatchObject([{ count: 2, details: { reasons: { backup_eligibility_changed: 2 } } }]);
    },
  );

  it('is refused in a frame of a page of another origin', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    for (const clientData of [{ crossOrigin: true }, { topOrigin: 'https://evil.example' }]) {
      authenticator.clientData = clientData;
      expectProblem(await owner.answersWith(authenticator), problems.invalidSecondFactor);
      expectProblem(await logInAlone(app, authenticator), problems.invalidPasskey);
    }
    // Browsers of WebAuthn Level 1 do not say it.
    authenticator.clientData = {};
    expect((await logInAlone(app, authenticator)).status).toBe(200);
  });

  it('may be one whose counter is always 0', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers(new Authenticator({ counterStep: 0, isSynced: true }));
    for (let i = 0; i < 2; i += 1) {
      const { access_token } = (await owner.answersWith(authenticator)).body as Tokens;
      expect(readClaims(access_token).amr).toEqual(['pwd', 'swk', 'user', 'mfa']);
    }
  });
});

describe('POST /api/v0/auth/login/passkey', () => {
  it('logs in with nothing else, from options that are the same for every client', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    const options = await passkeyOptions(app);
    expect(options).toEqual({
      rpId: 'localhost',
      challenge: expect.any(String) as string,
      timeout: 300_000,
      userVerification: 'required',
    });
    const { body } = await logInWithPasskey(replica, authenticator.get(options)).expect(200);
    const { access_token, refresh_token } = body as Tokens;
    expect((await app.me(access_token).expect(200)).body).toMatchObject({ id: owner.user.id });
    expect(readClaims(access_token).amr).toEqual(['hwk', 'user', 'mfa']);
    await app.refresh(refresh_token).expect(200);
  });

  it('answers 403 without a verified address where REQUIRE_VERIFIED_EMAIL is set, and the same answer logs in then', async () => {
    const strict = await app.startReplica({ variables: { REQUIRE_VERIFIED_EMAIL: 'true' } });
    const owner = await FactorOwner.of(app);
    const passkey = (await owner.registers()).get(await passkeyOptions(strict));
    expectProblem(await logInWithPasskey(strict, passkey), problems.emailNotVerified);
    await app.database.query('UPDATE users SET email_verified_at = now() WHERE id = $1', [owner.user.id]);
    await logInWithPasskey(strict, passkey).expect(200);
    await strict.stop();
  });

  it('writes nothing for options that are never answered', async () => {
    const [before] = await app.database.query('SELECT count(*) FROM used_challenges');
    await passkeyOptions(app);
    expect(await app.database.query('SELECT count(*) FROM used_challenges')).toEqual([before]);
  });

  it('accepts an answer in exactly one of 20 concurrent logins over two replicas', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers(new Authenticator({ counterStep: 0 }));
    const passkey = authenticator.get(await passkeyOptions(app));
    const answers = await atOnce(20, (i) => logInWithPasskey(i % 2 ? app : replica, passkey));
    expect(countByStatus(answers)).toEqual({ 200: 1, 401: 19 });
  });

  it('is refused when the passkey was removed, or the password reset, after the passkey was verified', async () => {
    const [removed, reset] = [await FactorOwner.of(app), await FactorOwner.of(app)];
    const [first, second] = [await removed.registers(), await reset.registers()];
    const [id] = await removed.passkeyIds();
    const verifier = app.nest.get(PasskeyVerifier);

    afterNext(verifier, 'verifyPasskey', async () => expect((await removed.removesPasskey(id)).status).toBe(204));
    expectProblem(await logInAlone(app, first), problems.invalidPasskey);

    const { body } = await app.admin.post(`/users/${reset.user.id}/password-reset`).expect(201);
    const confirmation = { token: (body as { token: string }).token, new_password: `${PASSWORD} 2` };
    afterNext(verifier, 'verifyPasskey', () =>
      app.post('/api/v0/auth/password-reset/confirm', confirmation).expect(204),
    );
    expectProblem(await logInAlone(app, second), problems.invalidPasskey);

    const refusals = app.log.events('user.second_factor.failed').slice(-2);
    expect(refusals).toMatchObject([{ reason: 'changed_meanwhile' }, { reason: 'changed_meanwhile' }]);
  });

  it('answers an unknown passkey, a removed one, an old challenge and a disabled user alike', async () => {
    const [removed, disabled, late] = [await FactorOwner.of(app), await FactorOwner.of(app), await FactorOwner.of(app)];
    const [first, second, third] = [await removed.registers(), await disabled.registers(), await late.registers()];
    expect((await removed.removesPasskey((await removed.passkeyIds())[0])).status).toBe(204);
    await app.admin.patch(`/users/${disabled.user.id}`, { is_active: false }).expect(200);
    const old = await passkeyOptions(app);
    app.clock.advance({ minutes: 5, seconds: 1 });
    const options = await passkeyOptions(app);
    const ofSecondFactor = await late.isChallenged();
    const answers = [
      await logInWithPasskey(app, new Authenticator().get(options)),
      await logInWithPasskey(app, first.get(options)),
      await logInWithPasskey(app, second.get(options)),
      await logInWithPasskey(app, third.get(old)),
      await logInWithPasskey(app, third.get(ofSecondFactor)),
    ];
    for (const answer of answers) expectProblem(answer, problems.invalidPasskey);
    const headers = answers.map((answer) => Object.keys(answer.headers).filter((name) => !/^ratelimit/.test(name)));
    expect(new Set(headers.map(String)).size).toBe(1);
  });
});

describe('an answer that no browser makes', () => {
  it('is 400 at both logins, and uses no challenge up', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    const { challenge } = await owner.isChallenged();
    for (const passkey of [{}, { id: 'x' }]) {
      expectInvalid(await logInWithPasskey(app, passkey), '/passkey');
      expectInvalid(await owner.answers(challenge, 'passkey', { passkey }), '/passkey');
    }
    await owner.answers(challenge, 'passkey', { passkey: authenticator.get({ challenge }) }).expect(200);
  });
});

describe('without WEBAUTHN_RP_ID in production', () => {
  const without = useReplica(app, { variables: { NODE_ENV: 'production' } });

  it('the routes of passkeys answer 404, and a user who has nothing else is not let in by the password alone', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = await owner.registers();
    expectProblem(await without.post('/api/v0/auth/login/passkey/options', {}), problems.notFound);
    expectProblem(await owner.post('/passkeys/options', { password: PASSWORD }, without), problems.notFound);
    const passkey = authenticator.get(await passkeyOptions(app));
    for (const answer of [passkey, {}]) expectProblem(await logInWithPasskey(without, answer), problems.notFound);
    expectProblem(await owner.offers({}, without), problems.notFound);
    expect(await owner.isChallenged(without)).toMatchObject({ methods: [] });
  });
});
