import { createRemoteJWKSet, customFetch, jwtVerify } from 'jose';
import { problems } from '../../../src/foundation/problems/problems.js';
import { urlOf, useCli } from '../../support/cli.js';
import { expectProblem } from '../../support/expect-problem.js';
import { kidOf, ES256 } from './support.js';
import { useApp, useReplica } from '../../support/use-app.js';

const PATH = '/.well-known/oauth-authorization-server';
const ISSUER = 'https://auth.example.org';

describe('GET /.well-known/oauth-authorization-server', () => {
  const app = useApp({ variables: { ...ES256, JWT_ISSUER: ISSUER } });
  const split = useReplica(app, { variables: { INTERNAL_PORT: '7702' } });
  const cli = useCli(app);

  it('names the issuer, the keys, the introspection and the exchange of tokens (RFC 8414)', async () => {
    const { body, headers } = await app.get(PATH).expect(200);
    expect(body).toEqual({
      issuer: ISSUER,
      jwks_uri: `${ISSUER}/.well-known/jwks.json`,
      introspection_endpoint: `${ISSUER}/internal/introspect`,
      introspection_endpoint_auth_methods_supported: ['client_secret_basic'],
      token_endpoint: `${ISSUER}/internal/token`,
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
      response_types_supported: [],
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:token-exchange'],
    });
    expect(headers['cache-control']).toBe('public, max-age=3600');
    const service = await app.service(undefined, 'auth');
    const { access_token } = await (await app.user()).logsIn();
    const call = app.post(new URL((body as { introspection_endpoint: string }).introspection_endpoint).pathname);
    const answer = await call
      .auth(service.appId, service.appKey)
      .type('form')
      .send({ token: access_token })
      .expect(200);
    expect(answer.body).toMatchObject({ active: true, iss: ISSUER });
  });

  it('leaves the introspection out where only INTERNAL_PORT has it', async () => {
    expect((await split.get(PATH).expect(200)).body).not.toHaveProperty('introspection_endpoint');
  });

  it.each(['platform-auth', 'http://auth.example.org', 'https://auth.example.org/?a=b', 'https://auth.example.org/#a'])(
    'answers 404 while JWT_ISSUER is %s',
    async (issuer) => {
      const other = await app.startReplica({ variables: { JWT_ISSUER: issuer } });
      expectProblem(await other.get(PATH), problems.notFound);
      await other.stop();
    },
  );

  it('leads jose to the keys: it verifies a token, refuses one of a revoked key, and also accepts one of an ended session', async () => {
    const { jwks_uri } = (await app.get(PATH)).body as { jwks_uri: string };
    // Read anew for each token: the settings of docs/integrate-standard-libraries.md bound how old the keys may be.
    const toService = (url: string, options: RequestInit) => fetch(url.replace(ISSUER, urlOf(app)), options);
    const verify = (token: string) => {
      const keys = createRemoteJWKSet(new URL(jwks_uri), { [customFetch]: toService, cooldownDuration: 0 });
      return jwtVerify(token, keys, { issuer: ISSUER, algorithms: ['ES256'] });
    };
    const user = await app.user();
    const { access_token, refresh_token } = await user.logsIn();
    expect((await verify(access_token)).payload.sub).toBe(user.id);
    await app.logout(refresh_token).expect(204);
    await verify(access_token);
    await cli.with({ DATABASE_URL: app.database.url }).ok('keys', 'revoke', kidOf(access_token)!, '--yes');
    await expect(verify(access_token)).rejects.toMatchObject({ code: 'ERR_JWKS_NO_MATCHING_KEY' });
  });
});
