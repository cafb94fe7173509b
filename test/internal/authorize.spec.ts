import { connect, type AddressInfo } from 'node:net';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import type { Device, Service, Tokens, User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

describe('/internal/authorize', () => {
  const app = useApp();
  let node: Device;
  let service: Service;
  let user: User;
  let tokens: Tokens;

  beforeAll(async () => {
    [node, service, user] = [await app.node(), await app.service('ocr', 'recipes'), await app.user()];
    tokens = await user.logsIn();
  });

  const identity = (headers: Record<string, string>) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-auth-')));

  it('answers each door with its identity in headers, and without a body', async () => {
    const asNode = await app.get('/internal/authorize/node').set('X-API-Key', node.header).expect(200);
    const asApp = await app
      .get('/internal/authorize/app')
      .set({ ...service.headers, 'X-Platform-Target': 'recipes' })
      .expect(200);
    const asUser = await app
      .get('/internal/authorize/user')
      .set('Authorization', `Bearer ${tokens.access_token}`)
      .expect(200);
    for (const { text } of [asNode, asApp, asUser]) expect(text).toBe('');
    expect(identity(asNode.headers as Record<string, string>)).toEqual({
      'x-auth-door': 'node',
      'x-auth-node-id': node.nodeId,
      'x-auth-household-id': node.householdId,
    });
    expect(identity(asApp.headers as Record<string, string>)).toEqual({
      'x-auth-door': 'app',
      'x-auth-app-id': service.appId,
      'x-auth-caller': 'ocr',
    });
    expect(identity(asUser.headers as Record<string, string>)).toEqual({
      'x-auth-door': 'user',
      'x-auth-user-id': user.id,
      'x-auth-session-id': expect.any(String) as string,
      'x-auth-amr': 'pwd',
    });
  });

  it.each([
    ['names all factors of the session', ['pwd', 'hwk', 'user', 'mfa'], 'pwd hwk user mfa'],
    ['names no factors when the session states none', [], undefined],
    ['names no factors when a word is not one of RFC 8176', ['pwd', 'MFA\r\nX-Auth-User-Id: x'], undefined],
    ['names no factors when they would make a large header', Array.from({ length: 200 }, () => 'mfa'), undefined],
  ])('%s', async (_name, amr, header) => {
    const { access_token } = await user.logsIn();
    await app.database.query('UPDATE sessions SET amr = $1 WHERE user_id = $2', [amr, user.id]);
    const { headers } = await app
      .get('/internal/authorize/user')
      .set('Authorization', `Bearer ${access_token}`)
      .expect(200);
    expect((headers as Record<string, string>)['x-auth-amr']).toBe(header);
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
    for (const path of ['/internal/authorize', '/internal/authorize/admin', '/internal/authorize/nodes']) {
      expect((await app.get(path).set('X-API-Key', node.header)).status).toBe(404);
    }
  });

  it('never reads the body, of any type and size', async () => {
    const large = Buffer.alloc(2_000_000, 'x');
    const answer = await app
      .post('/internal/authorize/node/upload')
      .set({ 'X-API-Key': node.header, 'Content-Type': 'application/octet-stream' })
      .send(large);
    expect(answer.status).toBe(200);
    await app.post('/internal/authorize/node').set('X-API-Key', node.header).type('form').send('a=1').expect(200);
    await app.post('/internal/authorize/node').set('X-API-Key', node.header).type('json').send('{').expect(200);
  });

  it('is 401 without a credential, with a wrong one, with one of another door, and with a doubled one', async () => {
    const { invalidNodeCredentials, missingAccessToken } = problems;
    expectProblem(await app.get('/internal/authorize/node'), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/node').set('X-API-Key', 'x'), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/node').set(service.headers), invalidNodeCredentials);
    expectProblem(await app.get('/internal/authorize/user').set('X-API-Key', node.header), missingAccessToken);
    const doubled = await sendRaw(
      'GET /internal/authorize/node',
      `X-API-Key: ${node.header}\r\nX-API-Key: ${node.header}\r\n`,
    );
    expect(doubled).toMatch(/^HTTP\/1\.1 401 .*invalid_node_credentials/s);
  });

  it('is 401 for an app key of another target', async () => {
    const headers = { ...service.headers, 'X-Platform-Target': 'speech' };
    expectProblem(await app.get('/internal/authorize/app').set(headers), problems.invalidAppCredentials);
  });

  it('is 503, and logged once, when the gateway does not name its service', async () => {
    for (let i = 0; i < 3; i += 1) {
      expectProblem(await app.get('/internal/authorize/app').set(service.headers), problems.gatewayMisconfigured);
    }
    const about = app.log.lines.filter(({ message }) => message.startsWith('gateway_'));
    expect(about.map(({ message }) => message)).toEqual(['gateway_names_no_target']);
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
