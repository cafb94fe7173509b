import { type AddressInfo, connect } from 'node:net';
import { request } from 'node:http';
import { formExpected, problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import type { Device, Service, Tokens, User } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

const app = useApp();

/** What a test reads of an access token. */
const claimsOf = (accessToken: string) =>
  JSON.parse(Buffer.from(accessToken.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>;

describe('/internal/authorize', () => {
  let node: Device;
  let service: Service;
  let user: User;
  let tokens: Tokens;

  beforeAll(async () => {
    [node, service, user] = [await app.node(), await app.service('ocr', 'recipes'), await app.user()];
    tokens = await user.logsIn();
  });

  /** The identity that a gateway passes on. */
  const identify = async (door: string, credential: Record<string, string>) => {
    const { headers } = await app.get(`/internal/authorize/${door}`).set(credential).expect(200, '');
    const all = Object.entries(headers as Record<string, string>);
    return Object.fromEntries(all.filter(([name]) => name.startsWith('x-auth-')));
  };

  it('answers each door with its identity in headers, and without a body', async () => {
    expect(await identify('node', { 'X-API-Key': node.header })).toEqual({
      'x-auth-door': 'node',
      'x-auth-node-id': node.nodeId,
      'x-auth-household-id': node.householdId,
    });
    expect(await identify('app', { ...service.headers, 'X-Platform-Target': 'recipes' })).toEqual({
      'x-auth-door': 'app',
      'x-auth-app-id': service.appId,
      'x-auth-caller': 'ocr',
    });
    expect(await identify('user', { Authorization: `Bearer ${tokens.access_token}` })).toEqual({
      'x-auth-door': 'user',
      'x-auth-user-id': user.id,
      'x-auth-session-id': expect.any(String) as string,
      'x-auth-email': user.email,
      'x-auth-amr': 'pwd',
      'x-auth-households': '',
    });
  });

  it('names the scopes of a restricted key', async () => {
    await app.admin.patch(`/app-credentials/${service.appId}`, { scopes: ['a:read', 'b:read'] }).expect(200);
    const asked = { 'X-Platform-Target': 'recipes', 'X-Platform-Scope': 'b:read' };
    expect((await identify('app', { ...service.headers, ...asked }))['x-auth-scopes']).toBe('a:read b:read');
  });

  it.each([
    ['names all factors of the session', ['pwd', 'hwk', 'user', 'mfa'], 'pwd hwk user mfa'],
    ['names no factors when the session states none', [], undefined],
    ['names no factors when a word is not one of RFC 8176', ['pwd', 'MFA\r\nX-Auth-User-Id: x'], undefined],
    ['names no factors when they would make a large header', Array.from({ length: 200 }, () => 'mfa'), undefined],
  ])('%s', async (_name, amr, header) => {
    const { access_token } = await user.logsIn();
    await app.database.query('UPDATE sessions SET amr = $1 WHERE user_id = $2', [amr, user.id]);
    expect((await identify('user', { Authorization: `Bearer ${access_token}` }))['x-auth-amr']).toBe(header);
  });

  it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD'])(
    'answers any path below, for %s',
    async (method) => {
      for (const tail of ['', '/', '/a/b', '/a%2fb', '/%zz', '//x', '/../y', '?q=1&q=2&target=x', '/x?__proto__=1']) {
        const answer = await sendRaw(`${method} /internal/authorize/node${tail}`, `X-API-Key: ${node.header}\r\n`);
        expect({ tail, status: answer.split(' ')[1] }).toEqual({ tail, status: '200' });
      }
    },
  );

  it('does not take other paths for it', async () => {
    for (const tail of ['', '/admin', '/nodes'])
      await app.get(`/internal/authorize${tail}`).set('X-API-Key', node.header).expect(404);
  });

  it('never reads the body, of any type and size', async () => {
    for (const [type, body] of [
      ['application/octet-stream', Buffer.alloc(2_000_000, 'x')],
      ['form', 'a=1'],
      ['json', '{'],
    ] as const)
      await app.post('/internal/authorize/node/a').set('X-API-Key', node.header).type(type).send(body).expect(200);
  });

  it('is 401 without a credential, with a wrong one, with one of another door, with a doubled one, and for an app key of another target', async () => {
    const { invalidNodeCredentials, missingAccessToken } = problems;
    expectProblem(await app.get('/internal/authorize/node'), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/node').set('X-API-Key', 'x'), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/node').set(service.headers), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/user').set('X-API-Key', node.header), missingAccessToken);
    const line = `X-API-Key: ${node.header}\r\n`;
    expect(await sendRaw('GET /internal/authorize/node', line + line)).toMatch(
      /^HTTP\/1\.1 401 .*invalid_node_credentials/s,
    );
    const headers = { ...service.headers, 'X-Platform-Target': 'speech' };
    expectProblem(await app.get('/internal/authorize/app').set(headers), problems.invalidAppCredentials);
  });

  it('is 503 for no service, two services or two scopes, or a scope at a door without scopes; each door logs each mistake once', async () => {
    expectProblem(await app.get('/internal/authorize/app').set(service.headers), problems.gatewayMisconfigured);
    const asApp = Object.entries(service.headers).map((header) => header.join(': '));
    const recipes = 'X-Platform-Target: recipes';
    const scope = 'X-Platform-Scope: documents:read';
    const mistakes = [
      ['app', ...asApp],
      ['app', ...asApp, recipes, recipes],
      ['app', ...asApp, recipes, scope, scope],
      ['node', `X-API-Key: ${node.header}`, scope],
      ['node', `X-API-Key: ${node.header}`, recipes, recipes],
      ['user', `Authorization: Bearer ${tokens.access_token}`, scope],
    ];
    for (const [door, ...lines] of [...mistakes, ...mistakes])
      expect(await sendRaw(`GET /internal/authorize/${door}`, `${lines.join('\r\n')}\r\n`)).toMatch(
        /^HTTP\/1\.1 503 .*gateway_misconfigured/s,
      );
    const logged = app.log.lines.filter(({ message }) => message.startsWith('gateway_'));
    expect(logged.map(({ message }) => message)).toEqual([
      'gateway_names_no_target',
      'gateway_names_no_scope',
      'gateway_misplaces_scope',
      'gateway_names_no_target',
      'gateway_misplaces_scope',
    ]);
  });

  /** As a gateway may send it: supertest would resolve the path. */
  const sendRaw = async (head: string, headers: string): Promise<string> => {
    const { port } = app.server.address() as AddressInfo;
    return new Promise((resolve, reject) => {
      let text = '';
      const socket = connect(port, '127.0.0.1')
        .on('data', (chunk) => (text += chunk.toString()))
        .on('end', () => resolve(text))
        .on('error', reject);
      socket.write(`${head} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`);
    });
  };
});

describe('POST /internal/introspect', () => {
  let service: Service;
  let basic: string;

  beforeAll(async () => {
    service = await app.service('recipes', 'auth');
    const key = service.headers['X-Platform-App-Key'];
    basic = `Basic ${Buffer.from(`${service.appId}:${encodeURIComponent(key!)}`).toString('base64')}`;
  });

  const introspect = (form: string) => app.post('/internal/introspect').type('form').send(form);

  it('describes a live access token and its login, for an app credential in its headers or in HTTP Basic', async () => {
    const user = await app.user();
    const login = await user.logsIn();
    const firstIat = claimsOf(login.access_token).iat as number;
    app.clock.advance({ minutes: 10 });
    const { access_token } = (await app.refresh(login.refresh_token).expect(200)).body as Tokens;
    const { sub, sid, exp, iat, iss, jti } = claimsOf(access_token);
    const form = `token=${access_token}&token_type_hint=refresh_token`;
    for (const headers of [service.headers, { Authorization: basic }]) {
      const { body } = await introspect(form).set(headers).expect(200);
      const token = { sub, sid, exp, iat, iss, jti, token_type: 'Bearer' };
      const { auth_time, ...rest } = body as { auth_time: number };
      expect(rest).toEqual({ active: true, ...token, username: user.email, amr: ['pwd'], households: [] });
      // The session starts before its first token is signed, perhaps in the second before.
      expect([firstIat - 1, firstIat]).toContain(auth_time);
      expect(iat).toBeGreaterThanOrEqual(auth_time + 600);
    }
  });

  it('answers active: false to any other token, without a refusal in the log', async () => {
    const { access_token, refresh_token } = await (await app.user()).logsIn();
    await app.logout(refresh_token).expect(204);
    const before = app.log.events('user.token.refused').length;
    for (const token of [access_token, refresh_token, 'x', `${access_token} x`, 'é']) {
      const call = introspect(`token=${encodeURIComponent(token)}`).set(service.headers);
      await call.expect(200, { active: false });
    }
    expect(app.log.events('user.token.refused')).toHaveLength(before);
  });

  it('refuses callers without a credential for this service', async () => {
    const other = await app.service('recipes', 'ocr');
    const toBasic = (credential: string) => `Basic ${Buffer.from(credential).toString('base64')}`;
    expectProblem(await introspect('token=x'), problems.invalidAppCredentials);
    expectProblem(await introspect('token=x').set(other.headers), problems.invalidAppCredentials);
    const wrong = [`${service.appId}:wrong`, '%zz:%'].map(toBasic);
    for (const authorization of [...wrong, 'Basic', 'Basic !', 'Bearer x']) {
      const answer = await introspect('token=x').set('Authorization', authorization);
      expectProblem(answer, { ...problems.invalidAppCredentials, challenge: 'Basic realm="platform-auth"' });
    }
    const both = { ...service.headers, Authorization: basic };
    expectProblem(await introspect('token=x').set(both), problems.duplicateHeader);
  });

  it.each([
    ['', '/token'],
    ['token=', '/token'],
    ['token=a&token=b', '/token'],
    ['tokens=a', '/token'],
    // It would not be checked.
    ['token=x&target=ocr', '/target'],
  ])('answers 400 to the form "%s"', async (form, pointer) => {
    expectInvalid(await introspect(form).set(service.headers), pointer);
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
    const { code, detail } = formExpected;
    expect([code, detail]).toEqual(['unsupported_media_type', expect.stringContaining('form')]);
  });
});

const NOT_VALID = { extension: { valid: false } } as const;

describe('POST /internal/validate-user', () => {
  const validate = (accessToken: string, body?: object) =>
    app.post('/internal/validate-user', body).set('Authorization', `Bearer ${accessToken}`);

  it('answers the user, the session and the end of the token', async () => {
    const user = await app.user();
    const { access_token } = await user.logsIn();
    const { body } = await validate(access_token, {}).expect(200);
    const { sid, exp } = claimsOf(access_token) as { sid: string; exp: number };
    expect(body).toEqual({
      valid: true,
      user_id: user.id,
      session_id: sid,
      email: user.email,
      expires_at: new Date(exp * 1_000).toISOString(),
      amr: ['pwd'],
      households: [],
    });
  });

  it('refuses with valid: false as soon as the logout has answered', async () => {
    const user = await app.user();
    const { access_token, refresh_token } = await user.logsIn();
    await app.logout(refresh_token).expect(204);
    expectProblem(await validate(access_token), { ...problems.invalidAccessToken, ...NOT_VALID });
    expectProblem(await app.post('/internal/validate-user'), { ...problems.missingAccessToken, ...NOT_VALID });
  });

  it('demands a valid app credential for this service if one is sent, and no body with fields', async () => {
    const { access_token } = await (await app.user()).logsIn();
    expectInvalid(await validate(access_token, { target: 'recipes' }), '/target');
    const [ours, foreign] = [await app.service('speech', 'auth'), await app.service('speech', 'recipes')];
    await validate(access_token).set(ours.headers).expect(200);
    expectProblem(await validate(access_token).set(foreign.headers), problems.invalidAppCredentials);
  });

  it('demands none otherwise, also with VALIDATE_NODE_REQUIRES_APP', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const strict = await app.startReplica({ variables: { VALIDATE_NODE_REQUIRES_APP: 'true' } });
    await strict.post('/internal/validate-user').set('Authorization', `Bearer ${access_token}`).expect(200);
    await strict.stop();
  });
});
