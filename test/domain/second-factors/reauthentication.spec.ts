import type { Test as SupertestRequest } from 'supertest';
import { PasswordVerifier } from '../../../src/domain/passwords/password-verifier.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { afterNext, atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { NEW_PASSWORD } from '../../support/owner.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { countByStatus } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner, type Challenge } from './owner.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

describe('an act of an account that has a second factor', () => {
  const changePassword = (owner: FactorOwner, proof: object, on = app): SupertestRequest =>
    owner.post('/password', { current_password: PASSWORD, new_password: NEW_PASSWORD, ...proof }, on);

  it.each<[string, string, object, number]>([
    ['a change of the password', '/password', { current_password: PASSWORD, new_password: NEW_PASSWORD }, 204],
    ['a change of the address', '/email', { password: PASSWORD, new_email: 'moved@example.org' }, 202],
    ['the deletion of the account', '/delete', { password: PASSWORD }, 204],
    ['the options of a further passkey', '/passkeys/options', { password: PASSWORD }, 200],
    ['the removal of a passkey', '/passkeys/:id/remove', { password: PASSWORD }, 204],
    ['the removal of the app', '/totp/remove', { password: PASSWORD }, 204],
    ['new recovery codes', '/recovery-codes', { password: PASSWORD }, 200],
  ])('needs a fresh factor beside the password: %s', async (_what, route, body, done) => {
    const owner = await FactorOwner.withTotp(app);
    await owner.registers();
    const path = route.replace(':id', (await owner.passkeyIds())[0]!);
    const refused = await owner.post(path, body);
    expectProblem(refused, problems.freshSecondFactorRequired);
    expect(refused.body).toMatchObject({ methods: ['totp', 'recovery_code', 'passkey'] });
    expectProblem(await owner.post(path, { ...body, code: owner.wrongCode() }), problems.wrongSecondFactor);
    await owner.isChallenged();
    await owner.post(path, { ...body, code: owner.code() }).expect(done);
  });

  it('such as an enrolment of an app needs the passkey that there is', async () => {
    const owner = await FactorOwner.of(app);
    await owner.registers();
    const refused = await owner.post('/totp', { password: PASSWORD });
    expectProblem(refused, problems.freshSecondFactorRequired);
    expect(refused.body).toMatchObject({ methods: ['passkey'] });
    await owner.post('/totp', await owner.proof()).expect(201);
  });

  it('such as the deletion of a household needs a fresh factor, each code once', async () => {
    const owner = await FactorOwner.withTotp(app);
    const made = await owner.as(app.post('/api/v0/households', { name: 'home' })).expect(201);
    const end = (proof: object) =>
      owner
        .as(app.delete(`/api/v0/households/${(made.body as { id: string }).id}`))
        .send({ password: PASSWORD, ...proof });
    expectProblem(await end({}), problems.freshSecondFactorRequired);
    expectProblem(await end({ code: owner.wrongCode() }), problems.wrongSecondFactor);
    const code = owner.code();
    await end({ code }).expect(204);
    expectProblem(await changePassword(owner, { code }), problems.wrongSecondFactor);
  });

  it('takes a recovery code or an answer of a passkey in place of a code, each once, and not both', async () => {
    const owner = await FactorOwner.withTotp(app);
    const authenticator = await owner.registers();
    const [code] = owner.recoveryCodes;
    expectInvalid(await changePassword(owner, { code, passkey: {} }), '/passkey');
    const passkey = await owner.freshPasskey(authenticator);
    await changePassword(owner, { code }).expect(204);
    // The passkey answered a challenge that followed the former password.
    const again = { current_password: NEW_PASSWORD, new_password: PASSWORD };
    expectProblem(await changePassword(owner, { ...again, passkey }), problems.wrongSecondFactor);
    expectProblem(await changePassword(owner, { ...again, code }), problems.wrongSecondFactor);
    await changePassword(owner, { ...again, code: owner.code() }).expect(204);
    const fresh = await owner.freshPasskey(authenticator);
    const answers = await atOnce(6, (i) => changePassword(owner, { passkey: fresh }, i % 2 ? app : replica));
    expect(countByStatus(answers)).toEqual({ 204: 1, 403: 5 });
  });

  it('takes no challenge of a login, of another account, or an old one, and no passkey of another account', async () => {
    const [owner, other] = [await FactorOwner.of(app), await FactorOwner.of(app)];
    const [own, foreign] = [await owner.registers(), await other.registers()];
    const { challenge } = await owner.isChallenged();
    const old = await owner.freshPasskey(own);
    app.clock.advance({ seconds: 310 });
    const { body } = await owner.post('/delete', { password: PASSWORD }).expect(403);
    const { passkey_options } = body as Challenge;
    for (const passkey of [
      old,
      own.get({ challenge }),
      await other.freshPasskey(foreign),
      foreign.get(passkey_options),
      new Authenticator().get(passkey_options),
    ])
      expectProblem(await owner.post('/delete', { password: PASSWORD, passkey }), problems.wrongSecondFactor);
    await owner.post('/delete', { password: PASSWORD, passkey: own.get(passkey_options) }).expect(204);
  });

  it('costs no code when it is refused', async () => {
    const owner = await FactorOwner.withTotp(app);
    const code = owner.code();
    expectInvalid(await changePassword(owner, { code, new_password: 'short' }), '/new_password');
    expectProblem(await changePassword(owner, { code, current_password: 'wrong' }), problems.wrongPassword);
    expectProblem(await owner.post('/totp', { password: PASSWORD, code }), problems.totpEnrolled);
    await changePassword(owner, { code }).expect(204);
  });

  it('is refused when another session added the factor after the password was verified', async () => {
    const owner = await FactorOwner.of(app);
    const other = new FactorOwner(app, owner.user, await owner.user.logsIn());
    afterNext(app.nest.get(PasswordVerifier), 'reauthenticateUser', () => owner.enrols());
    expectProblem(await changePassword(other, {}), problems.wrongSecondFactor);
    await owner.isChallenged();
  });

  it('ignores a code of an account that has none: the password is enough', async () => {
    await changePassword(await FactorOwner.of(app), { code: '000000' }).expect(204);
  });
});
