import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

const NOT_VALID = { extension: { valid: false } } as const;

describe('POST /internal/validate-user', () => {
  const app = useApp();
  const validate = (accessToken: string, body?: object) =>
    app.post('/internal/validate-user', body).set('Authorization', `Bearer ${accessToken}`);

  it('answers the user, the session and the end of the token', async () => {
    const user = await app.user();
    const { access_token } = await user.logsIn();
    const { body } = await validate(access_token, {}).expect(200);
    const { sid, exp } = JSON.parse(Buffer.from(access_token.split('.')[1]!, 'base64url').toString()) as {
      sid: string;
      exp: number;
    };
    expect(body).toEqual({
      valid: true,
      user_id: user.id,
      session_id: sid,
      email: user.email,
      expires_at: new Date(exp * 1_000).toISOString(),
      amr: ['pwd'],
    });
  });

  it('refuses with valid: false as soon as the logout has answered', async () => {
    const user = await app.user();
    const { access_token, refresh_token } = await user.logsIn();
    await app.logout(refresh_token).expect(204);
    expectProblem(await validate(access_token), { ...problems.invalidAccessToken, ...NOT_VALID });
    expectProblem(await app.post('/internal/validate-user'), { ...problems.missingAccessToken, ...NOT_VALID });
  });

  it('demands a valid app credential for this service if one is sent', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const [ours, foreign] = [await app.service('ocr', 'auth'), await app.service('ocr', 'recipes')];
    await validate(access_token).set(ours.headers).expect(200);
    expectProblem(await validate(access_token).set(foreign.headers), problems.invalidAppCredentials);
  });

  it('demands none otherwise, also with VALIDATE_NODE_REQUIRES_APP', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const strict = await app.startReplica({ variables: { VALIDATE_NODE_REQUIRES_APP: 'true' } });
    await strict.post('/internal/validate-user').set('Authorization', `Bearer ${access_token}`).expect(200);
    await strict.stop();
  });

  it('refuses a body with fields', async () => {
    const { access_token } = await (await app.user()).logsIn();
    expectInvalid(await validate(access_token, { target: 'recipes' }), '/target');
  });
});
