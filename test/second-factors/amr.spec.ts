import { useApp } from '../support/use-app.js';
import type { Tokens } from '../support/test-app.js';
import { claimsOf, FactorOwner } from './owner.js';

describe('how a session was made (amr, RFC 8176)', () => {
  const app = useApp();

  const validate = async (token: string): Promise<unknown> =>
    (await app.post('/internal/validate-user').set('Authorization', `Bearer ${token}`).expect(200)).body as unknown;

  it('is the password alone for a user without a second factor', async () => {
    const { access_token } = await (await app.user()).logsIn();
    expect(claimsOf(access_token).amr).toEqual(['pwd']);
    expect(await validate(access_token)).toMatchObject({ amr: ['pwd'] });
  });

  it('is in the access token, kept by each refresh, and answered to services', async () => {
    const owner = await FactorOwner.withTotp(app);
    let tokens = await owner.logsInWithCode();
    const amr = ['pwd', 'otp', 'mfa'];
    for (let i = 0; i < 2; i += 1) {
      expect(claimsOf(tokens.access_token).amr).toEqual(amr);
      expect(await validate(tokens.access_token)).toMatchObject({ amr });
      tokens = (await app.refresh(tokens.refresh_token).expect(200)).body as Tokens;
    }
  });

  it('is the same in the repeated answer to a refresh', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { refresh_token } = await owner.logsInWithCode();
    await app.refresh(refresh_token).expect(200);
    const repeated = (await app.refresh(refresh_token).expect(200)).body as Tokens;
    expect(claimsOf(repeated.access_token).amr).toEqual(['pwd', 'otp', 'mfa']);
  });

  it('is answered by introspection', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { access_token } = await owner.logsInWithCode();
    const service = await app.service('recipes', 'auth');
    const asked = app.post('/internal/introspect').type('form').send(`token=${access_token}`).set(service.headers);
    expect((await asked.expect(200)).body).toMatchObject({ active: true, amr: ['pwd', 'otp', 'mfa'] });
  });

  it('of a session from before the enrolment stays what it was', async () => {
    const owner = await FactorOwner.withTotp(app);
    expect(await validate(owner.tokens.access_token)).toMatchObject({ amr: ['pwd'] });
  });
});
