import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { ES256, kidOf } from './support.js';

describe('validate-user with Cache-Control: no-cache', () => {
  const app = useApp({ variables: { ...ES256, REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('reads the signing key from PostgreSQL, so that a verifier does not remember a token of a revoked one', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const validate = () =>
      app.post('/internal/validate-user').set({ Authorization: `Bearer ${access_token}`, 'Cache-Control': 'no-cache' });
    await validate().expect(200);
    // As a replica sees it that has not heard of the revocation yet.
    await app.database.query('ALTER TABLE signing_keys DISABLE TRIGGER USER');
    await app.database.query(`UPDATE signing_keys SET state = 'revoked', revoked_at = now() WHERE kid = $1`, [
      kidOf(access_token),
    ]);
    await app.me(access_token).expect(200);
    const { status, body } = await validate();
    expect({ status, body: body as unknown }).toMatchObject({
      status: 401,
      body: { code: problems.invalidAccessToken.code, valid: false },
    });
  });

  it('refuses a token without a key of this service', async () => {
    const answer = await app.post('/internal/validate-user').set('Authorization', 'Bearer e30.e30.e30');
    expectProblem(answer, { ...problems.invalidAccessToken, extension: { valid: false } });
  });
});
