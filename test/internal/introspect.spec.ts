import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { formExpected, problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Service } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('POST /internal/introspect', () => {
  const app = useApp();
  let service: Service;
  let basic: string;

  beforeAll(async () => {
    service = await app.service('recipes', 'auth');
    const key = service.headers['X-Platform-App-Key'];
    basic = `Basic ${Buffer.from(`${service.appId}:${encodeURIComponent(key!)}`).toString('base64')}`;
  });

  const introspect = (form: string) => app.post('/internal/introspect').type('form').send(form);

  it('describes a live access token, for an app credential in its headers or in HTTP Basic', async () => {
    const user = await app.user();
    const { access_token } = await user.logsIn();
    const claims = JSON.parse(Buffer.from(access_token.split('.')[1]!, 'base64url').toString()) as Record<
      string,
      unknown
    >;
    const { sub, sid, exp, iat, iss, jti } = claims;
    const form = `token=${access_token}&token_type_hint=refresh_token`;
    for (const headers of [service.headers, { Authorization: basic }]) {
      const { body } = await introspect(form).set(headers).expect(200);
      const token = { sub, sid, exp, iat, iss, jti, token_type: 'Bearer' };
      expect(body).toEqual({ active: true, ...token, username: user.email, amr: ['pwd'] });
    }
  });

  it('answers active: false to any other token, without a refusal in the log', async () => {
    const { access_token, refresh_token } = await (await app.user()).logsIn();
    await app.logout(refresh_token).expect(204);
    const before = app.log.events('user.token.refused').length;
    for (const token of [access_token, refresh_token, 'x', `${access_token} x`, 'é']) {
      const { body } = await introspect(`token=${encodeURIComponent(token)}`)
        .set(service.headers)
        .expect(200);
      expect(body).toEqual({ active: false });
    }
    expect(app.log.events('user.token.refused')).toHaveLength(before);
  });

  it('refuses callers without a credential for this service', async () => {
    const other = await app.service('recipes', 'ocr');
    const wrong = `Basic ${Buffer.from(`${service.appId}:wrong`).toString('base64')}`;
    expectProblem(await introspect('token=x'), problems.invalidAppCredentials);
    expectProblem(await introspect('token=x').set(other.headers), problems.invalidAppCredentials);
    for (const authorization of [
      wrong,
      'Basic',
      'Basic !',
      'Bearer x',
      `Basic ${Buffer.from('%zz:%').toString('base64')}`,
    ]) {
      const answer = await introspect('token=x').set('Authorization', authorization);
      expectProblem(answer, { ...problems.invalidAppCredentials, challenge: 'Basic realm="platform-auth"' });
    }
    const both = { ...service.headers, Authorization: basic };
    expectProblem(await introspect('token=x').set(both), problems.duplicateHeader);
  });

  it.each(['', 'token=', 'token=a&token=b', 'tokens=a'])('answers 400 to the form "%s"', async (form) => {
    expectInvalid(await introspect(form).set(service.headers), '/token');
  });

  it('refuses a target, which would not be checked', async () => {
    expectInvalid(await introspect('token=x&target=ocr').set(service.headers), '/target');
  });

  it.each(['token', 'token_type_hint'])('answers 400 to a %s of more than 8192 characters', async (name) => {
    const formOf = (length: number): string => `${name === 'token' ? '' : 'token=x&'}${name}=${'x'.repeat(length)}`;
    expectInvalid(await introspect(formOf(8_193)).set(service.headers), `/${name}`);
    await introspect(formOf(8_192)).set(service.headers).expect(200, { active: false });
  });

  it.each(['introspect', 'changes', 'validate-node'])(
    'and its neighbours refuse an empty query on %s',
    async (route) => {
      const { port } = app.server.address() as AddressInfo;
      const options = { port, method: 'POST', path: `/internal/${route}?`, headers: { ...service.headers } };
      // supertest would leave the question mark out.
      const status = await new Promise((resolve, reject) => {
        request(options, ({ statusCode }) => resolve(statusCode))
          .on('error', reject)
          .end();
      });
      expect(status).toBe(400);
    },
  );

  it('takes a form only, and says so (415)', async () => {
    const answer = await app.post('/internal/introspect', { token: 'x' }).set(service.headers);
    expectProblem(answer, formExpected);
    expect(formExpected).toMatchObject({
      code: 'unsupported_media_type',
      detail: expect.stringContaining('form') as string,
    });
  });
});
