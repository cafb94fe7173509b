import { jest } from '@jest/globals';
import { problems } from '../../src/problems/problems.js';
import { PasswordProof } from '../../src/users/password-proof.js';
import { PasswordVerifier } from '../../src/users/password-verifier.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp, useReplica } from '../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { Owner } from './owner.js';

describe('a change of second factors', () => {
  const app = useApp();
  const replica = useReplica(app);

  /** Runs an act after a proof has read the password, and before the change that it is for. */
  function afterProof(act: () => Promise<unknown>): void {
    const proof = app.nest.get(PasswordProof);
    const demand = proof.demand.bind(proof);
    jest.spyOn(proof, 'demand').mockImplementationOnce(async (...parameters) => {
      const verified = await demand(...parameters);
      await act();
      return verified;
    });
  }

  it.each([
    ['an app', (owner: Owner) => owner.enrols()],
    ['a passkey', (owner: Owner) => owner.registers()],
  ])('ends the other sessions when %s is the first factor, and this one goes on', async (_name, add) => {
    const owner = await Owner.of(app);
    const other = await owner.user.logsIn();
    await add(owner);
    expectProblem(await replica.me(other.access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(other.refresh_token), problems.invalidRefreshToken);
    await app.me(owner.tokens.access_token).expect(200);
  });

  it('keeps the other sessions when there is a factor already', async () => {
    const owner = await Owner.withTotp(app);
    const other = await owner.logsInWithCode();
    await owner.registers();
    await app.me(other.access_token).expect(200);
  });

  it('refuses a login that verified the password before the first factor was added', async () => {
    const owner = await Owner.of(app);
    const verifier = app.nest.get(PasswordVerifier);
    const verify = verifier.verify.bind(verifier);
    jest.spyOn(verifier, 'verify').mockImplementationOnce(async (...parameters) => {
      const verdict = await verify(...parameters);
      await owner.registers();
      return verdict;
    });
    expectProblem(await app.login(owner.user.email), problems.invalidCredentials);
    await owner.isChallenged();
  });

  it('refuses a session that ended after the password was verified', async () => {
    const owner = await Owner.of(app);
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
    const owner = await Owner.of(app);
    const sql = `UPDATE users SET password_changed_at = now() + interval '1 second' WHERE id = $1`;
    afterProof(() => app.database.query(sql, [owner.user.id]));
    expectProblem(await owner.post('/totp', { password: PASSWORD }), problems.wrongPassword);
    expectProblem(await owner.get('/totp'), problems.notFound);
  });

  it('refuses options of a passkey that were made before the password was changed', async () => {
    const owner = await Owner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    await owner.post('/password', { current_password: PASSWORD, new_password: `${PASSWORD} 2` }).expect(204);
    expectInvalid(await owner.post('/passkeys', { name: 'late', passkey }), '/passkey');
  });

  it('refuses a passkey whose authenticator states another id than the answer', async () => {
    const owner = await Owner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    const id = Buffer.alloc(32, 7).toString('base64url');
    expectInvalid(await owner.post('/passkeys', { name: 'x', passkey: { ...passkey, id, rawId: id } }), '/passkey');
  });
});
