import { Propagation } from '../../src/revocation/propagation.js';
import { Authenticator } from '../second-factors/authenticator.js';
import { FactorOwner } from '../second-factors/owner.js';
import { receiveToken, useMailServer } from '../support/mail-server.js';
import { NEW_PASSWORD, Owner, WRONG } from '../support/owner.js';
import { PASSWORD } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

/** When such a call has answered, no verifier accepts what it ended, not even one that is cut off. */
describe('calls that end sessions or users', () => {
  const { server, variables } = useMailServer();
  const app = useApp({ variables });

  const waitsOf = async (call: () => PromiseLike<unknown>): Promise<number> => {
    const waits = jest.spyOn(app.nest.get(Propagation), 'awaitPropagation');
    await call();
    const { length } = waits.mock.calls;
    waits.mockRestore();
    return length;
  };

  it('wait for propagation, also when there is nothing left to end', async () => {
    const user = await app.user();
    const { access_token, refresh_token } = await user.logsIn();
    for (let i = 0; i < 2; i += 1) {
      expect(await waitsOf(() => app.logout(refresh_token).expect(204))).toBe(1);
      const bearer = { Authorization: `Bearer ${access_token}` };
      expect(await waitsOf(() => app.post('/api/v0/auth/logout').set(bearer).expect(204))).toBe(1);
      expect(await waitsOf(() => app.admin.delete(`/users/${user.id}/sessions`).expect(204))).toBe(1);
      expect(await waitsOf(() => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200))).toBe(1);
    }
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}`).expect(204))).toBe(1);
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}`).expect(404))).toBe(1);
    expect(await waitsOf(() => app.admin.delete(`/users/${user.id}/sessions`).expect(404))).toBe(1);
  });

  it('of an owner wait too, also when they are refused or find nothing left to end', async () => {
    const owner = await Owner.of(app);
    const id = await (await owner.elsewhere()).sessionId();
    for (let i = 0; i < 2; i += 1) {
      expect(await waitsOf(() => owner.end(id).expect(204))).toBe(1);
      expect(await waitsOf(() => owner.endOthers().expect(204))).toBe(1);
    }
    expect(await waitsOf(() => owner.end('unknown').expect(404))).toBe(1);
    expect(await waitsOf(() => owner.changePassword().expect(204))).toBe(1);
    expect(await waitsOf(() => owner.changePassword().expect(403))).toBe(1);
    expect(await waitsOf(() => owner.deleteAccount(WRONG).expect(403))).toBe(1);
    expect(await waitsOf(() => owner.deleteAccount(NEW_PASSWORD).expect(204))).toBe(1);
  });

  it('wait too when they repeat a first factor or a reset whose answer was lost', async () => {
    const owner = await FactorOwner.withTotp(app);
    expect(await waitsOf(() => owner.post('/totp/confirm', { code: owner.code() }).expect(409))).toBe(1);
    expect(await waitsOf(() => owner.post('/totp', { password: PASSWORD }).expect(409))).toBe(1);
    const issued = await app.admin.post(`/users/${owner.user.id}/password-reset`, {}).expect(201);
    const { token } = issued.body as { token: string };
    const reset = () => app.post('/api/v0/auth/password-reset/confirm', { token, new_password: NEW_PASSWORD });
    expect(await waitsOf(() => reset().expect(204))).toBe(1);
    expect(await waitsOf(() => reset().expect(400))).toBe(1);
  });

  it('wait too when an operator removes the second factors, also when there are none', async () => {
    const { user } = await FactorOwner.withTotp(app);
    const remove = (id: string) => app.admin.delete(`/users/${id}/factors`);
    for (let i = 0; i < 2; i += 1) expect(await waitsOf(() => remove(user.id).expect(204))).toBe(1);
    await app.admin.delete(`/users/${user.id}`).expect(204);
    expect(await waitsOf(() => remove(user.id).expect(404))).toBe(1);
  });

  it('wait too when a passkey is the first factor, and when the call is repeated', async () => {
    const owner = await FactorOwner.of(app);
    const authenticator = new Authenticator();
    const register = async (options = owner.creationOptions()) => {
      const passkey = authenticator.create(await options);
      return () => owner.post('/passkeys', { name: 'phone', passkey });
    };
    const first = await register();
    expect(await waitsOf(() => first().expect(201))).toBe(1);
    expect(await waitsOf(() => first().expect(400))).toBe(1);
    const again = await register();
    expect(await waitsOf(() => again().expect(409))).toBe(1);
    const second = new Authenticator().create(await owner.creationOptions());
    expect(await waitsOf(() => owner.post('/passkeys', { name: 'key', passkey: second }).expect(201))).toBe(0);
  });

  it('wait too when an address is changed, by which verifiers forget the old one, and when the link was used', async () => {
    const owner = await Owner.of(app);
    const new_email = `new-${owner.user.email}`;
    await owner.as(app.post('/api/v0/users/me/email', { password: PASSWORD, new_email })).expect(202);
    const token = await receiveToken(app, server, new_email);
    const confirm = () => app.post('/api/v0/auth/email-verification/confirm', { token });
    expect(await waitsOf(() => confirm().expect(204))).toBe(1);
    expect(await waitsOf(() => confirm().expect(400))).toBe(1);
  });

  it('read no announcement, and do not wait, when the token does not parse', async () => {
    expect(await waitsOf(() => app.logout('not a refresh token').expect(204))).toBe(0);
    const { access_token } = await (await app.user()).logsIn();
    const bearer = { Authorization: `Bearer ${access_token}` };
    expect(await waitsOf(() => app.logout('not a refresh token').set(bearer).expect(204))).toBe(1);
    const reset = { token: 'not a token', new_password: NEW_PASSWORD };
    expect(await waitsOf(() => app.post('/api/v0/auth/password-reset/confirm', reset).expect(400))).toBe(0);
    const confirm = () => app.post('/api/v0/auth/email-verification/confirm', { token: 'not a token' });
    expect(await waitsOf(() => confirm().expect(400))).toBe(0);
  });

  it('are the only ones: logins, refreshes, lists and enabling a user do not wait', async () => {
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    expect(await waitsOf(() => app.refresh(refresh_token).expect(200))).toBe(0);
    expect(await waitsOf(() => app.admin.patch(`/users/${user.id}`, { is_active: true }).expect(200))).toBe(0);
    expect(await waitsOf(() => app.refresh('unknown').expect(401))).toBe(0);
    const owner = await Owner.of(app);
    expect(await waitsOf(() => owner.sessions())).toBe(0);
    expect(await waitsOf(() => owner.changePassword(NEW_PASSWORD, 'short').expect(400))).toBe(0);
    expect(await waitsOf(() => app.post('/api/v0/auth/logout', {}).expect(400))).toBe(0);
  });
});
