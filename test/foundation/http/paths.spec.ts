import request from 'supertest';
import { type Problem, problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { sendRaw } from '../../support/raw-request.js';
import { ADMIN_KEY, UNLEASED } from '../../support/settings.js';
import type { Device, Service } from '../../support/test-app.js';
import { useApp, useReplica } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });
let node: Device;
let service: Service;

beforeAll(async () => {
  [node, service] = [await app.node(), await app.service('ocr', 'auth')];
});

describe('a path', () => {
  /** Sends a raw request line with every credential. */
  const send = async (method: string, target: string): Promise<{ status: number; head: string; body: string }> => {
    const credentials = { 'X-API-Key': node.header, 'X-Admin-Key': ADMIN_KEY, ...service.headers };
    const lines = Object.entries(credentials).map((pair) => pair.join(': '));
    const answer = await sendRaw(app, `${method} ${target} HTTP/1.1`, 'Host: localhost', ...lines);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), head, body };
  };

  const expectRefusal = async (method: string, target: string, problem: Problem): Promise<void> => {
    const { status, body } = await send(method, target);
    const { code } = JSON.parse(body) as { code: string };
    expect({ target, status, code }).toEqual({ target, status: problem.status, code: problem.code });
  };

  it.each([
    ['POST', '/internal/validate-app'],
    ['GET', '/api/v0/admin/nodes'],
    ['GET', '/admin/nodes?limit=1'],
    ['GET', '/docs'],
    ['GET', '/docs/'],
  ])('reaches its route in exact spelling: %s %s', async (method, path) => {
    expect((await send(method, path)).status).toBe(200);
  });

  it.each([
    '/INTERNAL/validate-app',
    '/Internal/validate-app',
    '/internal/Validate-App',
    '/%69nternal/validate-app',
    '/internal/%76alidate-app',
    '/internal%2fvalidate-app',
    '/internal/validate-app/',
    '//internal/validate-app',
    '/internal//validate-app',
    '/./internal/validate-app',
    '/internal/./validate-app',
    '/docs/../internal/validate-app',
    '/docs/%2e%2e/internal/validate-app',
    '/docs/.%2E/internal/validate-app',
    '/internal/validate-app/.',
    '/internal/validate-app;a=b',
    '/api/v0/internal/validate-app',
    '/internal/validate-node/',
  ])('is not found for POST %s', async (path) => {
    await expectRefusal('POST', path, problems.notFound);
  });

  it.each(['/INTERNAL/validate-app', '/internal/Validate-Node', '/nowhere'])(
    'that is unknown is not found, whatever its headers, its query and its body are: %s',
    async (path) => {
      for (const headers of [
        ['X-API-Key: a', 'X-API-Key: b'],
        ['X-Platform-Target: elsewhere', 'X-Platform-Scope: a b'],
        ['Content-Type: text/plain', 'Content-Length: 1'],
        ['Host: other'],
      ]) {
        const answer = await sendRaw(app, `POST ${path}?__proto__=x HTTP/1.1`, 'Host: localhost', ...headers);
        expect(answer).toMatch(/^HTTP\/1\.1 404 [^]*"not_found"/);
      }
    },
  );

  it.each([
    '/API/v0/admin/nodes',
    '/api/V0/admin/nodes',
    '/api/v0/Admin/nodes',
    '/Admin/nodes',
    '/ADMIN/nodes?limit=1',
    '/admin/nodes/',
    '/api/v0/admin/nodes/',
    '/%61dmin/nodes',
    '//admin/nodes',
    '/users/../admin/nodes',
    '/api/v0/users/..',
    '/Users/me',
    '/health/',
    '/DOCS',
    '/docs-JSON',
    '/docs/%2e%2e/docs-json',
  ])('is not found for GET %s', async (path) => {
    await expectRefusal('GET', path, problems.notFound);
  });

  it.each([
    'POST http://localhost/internal/validate-app',
    'POST HTTP://localhost/internal/validate-app',
    'POST http://localhost:7701/internal/validate-app',
    'POST internal/validate-app',
    'POST *',
    'POST /internal\\validate-app#',
    'POST /\\internal/validate-app',
    'POST /internal/validate-app#',
    'POST /internal/validate-app#/../docs',
    'POST /internal/validate-app\xa0',
    'POST /internal/validate-app\x7f',
    'GET http://localhost/api/v0/admin/nodes',
    'GET ftp://localhost/docs',
    'GET *',
  ])('is malformed in %p', async (line) => {
    const [method = '', target = ''] = line.split(' ');
    await expectRefusal(method, target, problems.malformedRequest);
  });

  it.each(['a=//b', 'a=/../b', 'a=%2e%2e', 'a=http://b/'])('may have the query %s', async (query) => {
    const { status, body } = await send('GET', `/health/live?${query}`);
    expect({ status, body }).toMatchObject({ status: 200 });
  });

  describe('with a method that the route does not have', () => {
    it.each([
      ['GET', '/internal/validate-app', 'OPTIONS, POST'],
      ['DELETE', '/internal/validate-node', 'OPTIONS, POST'],
      ['TRACE', '/api/v0/auth/refresh', 'OPTIONS, POST'],
      ['POST', '/health', 'GET, HEAD, OPTIONS'],
      ['DELETE', '/docs', 'GET, HEAD, OPTIONS'],
      ['PUT', '/api/v0/admin/nodes', 'GET, HEAD, OPTIONS, POST'],
      ['POST', '/api/v0/admin/nodes/x', 'DELETE, GET, HEAD, OPTIONS, PATCH'],
      ['PUT', '/admin/nodes', 'GET, HEAD, OPTIONS, POST'],
      ['GET', '/auth/login', 'OPTIONS, POST'],
      ['PROPFIND', '/api/v0/users/me', 'GET, HEAD, OPTIONS'],
      ['POST', '/api/v0/users/me?x=%2f', 'GET, HEAD, OPTIONS'],
      // A route of `/nodes/:node_id` has these methods.
      ['DELETE', '/api/v0/admin/enrolments', 'GET, HEAD, OPTIONS, POST'],
      ['PATCH', '/admin/nodes/summary', 'GET, HEAD, OPTIONS'],
    ])('is 405 for %s %s, with Allow: %s', async (method, path, allowed) => {
      const { status, head, body } = await send(method, path);
      expect({ status, body }).toMatchObject({ status: 405, body: expect.stringContaining('"method_not_allowed"') });
      expect(head.split('\r\n')).toContain(`Allow: ${allowed}`);
    });

    it.each([
      ['/internal/validate-node', 'OPTIONS, POST'],
      // Not those of `/passkeys/:id`.
      ['/api/v0/users/me/passkeys/options', 'OPTIONS, POST'],
      ['/api/v0/admin/nodes', 'GET, HEAD, OPTIONS, POST'],
      ['/users/me', 'GET, HEAD, OPTIONS'],
      ['/', 'GET, HEAD, OPTIONS'],
    ])('is 204 for OPTIONS %s, with Allow: %s', async (path, allowed) => {
      const { status, head, body } = await send('OPTIONS', path);
      expect([status, body]).toEqual([204, '']);
      expect(head.split('\r\n')).toContain(`Allow: ${allowed}`);
    });

    it.each([
      ['/api/v0/auth/login', 'POST'],
      ['/internal/validate-app', 'POST'],
      ['/api/v0/admin/nodes/0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f/rotate', 'POST'],
    ])('is 405 whatever the body is: PUT %s', async (path, method) => {
      for (const [type, body] of [
        ['text/plain', 'x'],
        ['application/json', '{'],
        ['application/json', `"${'x'.repeat(102_400)}"`],
      ] as const) {
        const answer = await request(app.server).put(path).set('Content-Type', type).send(body);
        expectProblem(answer, problems.methodNotAllowed);
        expect(answer.headers).toMatchObject({ allow: `OPTIONS, ${method}` });
      }
    });

    it('is 404 for OPTIONS on an unknown path', async () => {
      await expectRefusal('OPTIONS', '/nowhere', problems.notFound);
    });

    it('is 405 without a body for HEAD, except on GET routes', async () => {
      const { status, head, body } = await send('HEAD', '/internal/validate-app');
      expect([status, body]).toEqual([405, '']);
      expect(head).toContain('Allow: OPTIONS, POST');
      expect((await send('HEAD', '/docs')).status).toBe(200);
    });

    it.each(['/nowhere', '/internal', '/internal/validate', '/api/v0/admin/nodes/x/y', '/api/v0'])(
      'is 404 when the path has no method at all: %s',
      async (path) => {
        await expectRefusal('PUT', path, problems.notFound);
      },
    );
  });
});

describe('INTERNAL_PORT', () => {
  const split = useReplica(app, { variables: { INTERNAL_PORT: '0' } });
  const onInternal = () => request(split.internal!);
  const onPublic = () => request(split.server);
  const everything = () => ({ 'X-Admin-Key': ADMIN_KEY, 'X-API-Key': node.header, ...service.headers });

  it.each([
    '/internal/validate-app',
    '/internal/validate-node',
    '/internal',
    '/internal/nowhere',
    '/api/v0/admin/nodes',
    '/api/v0/admin/users?limit=1',
    '/api/v0/admin',
    '/admin/nodes',
    '/admin/users?limit=1',
  ])('answers 404 on the public port, for every method, to %s', async (path) => {
    for (const method of ['get', 'post', 'put', 'options'] as const) {
      const answer = await onPublic()[method](path).set(everything());
      expectProblem(answer, problems.notFound);
      expect(answer.headers).not.toHaveProperty('allow');
    }
  });

  it('serves these routes on the internal port', async () => {
    await onInternal().post('/internal/validate-node').set('X-API-Key', node.header).expect(200);
    await onInternal().post('/internal/validate-app').set(service.headers).expect(200);
    await onInternal().get('/admin/nodes').set('X-Admin-Key', ADMIN_KEY).expect(200);
    expectProblem(await onInternal().get('/internal/validate-app'), problems.methodNotAllowed);
  });

  it('serves all other routes on both ports', async () => {
    const user = await split.user();
    for (const on of [onPublic, onInternal]) {
      for (const path of ['/health', '/health/live', '/docs']) await on().get(path).expect(200);
      await on().get(`/api/v0/users/${user.id}`).set(service.headers).expect(200);
    }
  });

  it('is recognised by the connection, not by request headers', async () => {
    const spoofed = onPublic().post('/internal/validate-node').set('X-API-Key', node.header);
    const { port } = split.internal!.address() as { port: number };
    expectProblem(await spoofed.set('Host', `127.0.0.1:${port}`).set('X-Forwarded-Port', `${port}`), problems.notFound);
  });
});
