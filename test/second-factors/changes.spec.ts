import { problems } from '../../src/problems/problems.js';
import { CodeVerifier } from '../../src/second-factors/codes.js';
import { RelyingParty } from '../../src/second-factors/webauthn.js';
import { PasswordVerifier } from '../../src/passwords/password-verifier.js';
import { recorded } from '../audit/record.js';
import { afterNext } from '../support/after-next.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp, useReplica } from '../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner } from './owner.js';

describe('a change of second factors', () => {
  const app = useApp();
  const replica = useReplica(app);

  /** Runs an act after a proof has read the password, and before the change that it is for. */
  const afterProof = (act: () => Promise<unknown>): void =>
    afterNext(app.nest.get(PasswordVerifier), 'reauthenticateUser', act);
  const otherPassword = (owner: FactorOwner) => (): Promise<unknown> =>
    app.database.query(`UPDATE users SET password_changed_at = now() + interval '1 second' WHERE id = $1`, [
      owner.user.id,
    ]);

  it.each([
    ['an app', 'user.totp.enrolled', (owner: FactorOwner) => owner.enrols()],
    ['a passkey', 'user.passkey.added', (owner: FactorOwner) => owner.registers()],
  ])('ends the other sessions when %s is the first factor, and this one goes on', async (_name, event, add) => {
    const owner = await FactorOwner.of(app);
    const other = await owner.user.logsIn();
    await add(owner);
    expectProblem(await replica.me(other.access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(other.refresh_token), problems.invalidRefreshToken);
    await app.me(owner.tokens.access_token).expect(200);
    expect(await recorded(app, { event, subject: owner.user.id })).toMatchObject([{ details: { ended_sessions: 1 } }]);
  });

  it('keeps the other sessions when there is a factor already', async () => {
    const owner = await FactorOwner.withTotp(app);
    const other = await owner.logsInWithCode();
    await owner.registers();
    await app.me(other.access_token).expect(200);
    const [added] = await recorded(app, { event: 'user.passkey.added', subject: owner.user.id });
    expect(added!.details).not.toHaveProperty('ended_sessions');
  });

  it('asks a login for the factor that was added after it verified the password: it is right, so not 401', async () => {
    const owner = await FactorOwner.of(app);
    afterNext(app.nest.get(PasswordVerifier), 'verifyPassword', () => owner.enrols());
    const answer = await app.login(owner.user.email);
    expectProblem(answer, problems.secondFactorRequired);
    app.clock.advance({ seconds: 60 });
    const { challenge } = answer.body as { challenge: string };
    await owner.answers(challenge, 'totp', { code: owner.code() }).expect(200);
  });

  it('leaves logins alone that verified the password before an enrolment began, or was refused', async () => {
    const owner = await FactorOwner.of(app);
    const enrol = () => owner.post('/totp', { password: PASSWORD }).expect(201);
    afterNext(app.nest.get(PasswordVerifier), 'verifyPassword', enrol);
    await app.login(owner.user.email).expect(200);

    const enrolled = await FactorOwner.withTotp(app);
    const sql = 'SELECT factors_changed_at FROM users WHERE id = $1';
    const before = await app.database.query(sql, [enrolled.user.id]);
    expectProblem(await enrolled.post('/totp', { password: PASSWORD }), problems.totpEnrolled);
    expect(await app.database.query(sql, [enrolled.user.id])).toEqual(before);
  });

  it('refuses a session that ended after the password was verified', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    const other = await owner.user.logsIn();
    const { items } = (await owner.registers().then(() => owner.get('/passkeys'))).body as { items: { id: string }[] };
    const end = () => app.logout(owner.tokens.refresh_token).expect(204);
    afterProof(end);
    expectProblem(
      await owner.post(`/passkeys/${items[0]!.id}/remove`, { password: PASSWORD }),
      problems.invalidAccessToken,
    );
    expectProblem(await app.me(other.access_token), problems.invalidAccessToken);
    expectProblem(await owner.post('/passkeys', { name: 'late', passkey }), problems.invalidAccessToken);
    await owner.isChallenged();
  });

  it('refuses a password that was changed after it was verified', async () => {
    const owner = await FactorOwner.of(app);
    afterProof(otherPassword(owner));
    expectProblem(await owner.post('/totp', { password: PASSWORD }), problems.wrongPassword);
    expectProblem(await owner.get('/totp'), problems.notFound);
  });

  it('refuses an enrolment and options whose answer was verified before the password was changed', async () => {
    const owner = await FactorOwner.of(app);
    owner.secret = ((await owner.post('/totp', { password: PASSWORD }).expect(201)).body as { secret: string }).secret;
    afterNext(app.nest.get(CodeVerifier), 'verifyEnrolmentCode', otherPassword(owner));
    expectProblem(await owner.post('/totp/confirm', { code: owner.code() }), problems.wrongSecondFactor);

    const passkey = new Authenticator().create(await owner.creationOptions());
    afterNext(app.nest.get(RelyingParty), 'verifyRegistration', async () => {
      const sql = `UPDATE users SET password_changed_at = password_changed_at + interval '1 second' WHERE id = $1`;
      await app.database.query(sql, [owner.user.id]);
    });
    expectInvalid(await owner.post('/passkeys', { name: 'late', passkey }), '/passkey');
    await app.login(owner.user.email).expect(200);
  });

  it('refuses options of a passkey that were made before the password was changed', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    await owner.post('/password', { current_password: PASSWORD, new_password: `${PASSWORD} 2` }).expect(204);
    expectInvalid(await owner.post('/passkeys', { name: 'late', passkey }), '/passkey');
  });

  it('refuses a passkey whose authenticator states another id than the answer', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    const id = Buffer.alloc(32, 7).toString('base64url');
    expectInvalid(await owner.post('/passkeys', { name: 'x', passkey: { ...passkey, id, rawId: id } }), '/passkey');
  });
});
