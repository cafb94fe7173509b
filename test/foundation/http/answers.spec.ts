import { randomUUID } from 'node:crypto';
import type { Response } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { ADMIN_KEY } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

type Answer = Promise<Response> | PromiseLike<Response>;

describe('every response', () => {
  const app = useApp();

  const KINDS: Record<string, () => Answer> = {
    '200 with an identity': async () => app.validateNode((await app.node()).header),
    '201 with a key': () => app.admin.post('/app-credentials', { caller: randomUUID(), target: 'b' }),
    '200 with a list': () => app.admin.get('/nodes'),
    '200 of the documentation': () => app.get('/docs'),
    '200 of the OpenAPI document': () => app.get('/docs-json'),
    '204 of a revocation': async () => app.admin.delete(`/nodes/${(await app.node()).nodeId}`),
    '400 of a field': () => app.admin.post('/nodes', {}),
    '400 of the syntax': () => app.post('/internal/validate-app').type('json').send('{'),
    '401 of a node': () => app.validateNode('a:b'),
    '401 of an app': () => app.validateApp({}),
    '401 of the operator': () => app.get('/api/v0/admin/users'),
    '404 of a route': () => app.get('/nowhere'),
    '404 of a row': () => app.admin.get(`/nodes/${randomUUID()}`),
    '413 of a body': () => app.post('/internal/validate-app', { target: 'x'.repeat(200_000) }),
    '415 of a form': () => app.post('/internal/validate-app').type('form').send('a=b'),
  };

  it.each(Object.keys(KINDS))(
    'has Cache-Control: no-store, and no header that names the framework: %s',
    async (kind) => {
      const { status, headers } = await KINDS[kind]!();
      expect(status).toBe(Number(kind.slice(0, 3)));
      const names = Object.keys(headers);
      expect(names.filter((name) => ['x-powered-by', 'etag', 'server', 'last-modified'].includes(name))).toEqual([]);
      expect(names).not.toContain('access-control-allow-origin');
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
      expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
      if (status >= 400) expect(headers['content-type']).toBe('application/problem+json; charset=utf-8');
    },
  );

  it('ignores If-None-Match and If-Modified-Since', async () => {
    await app.get('/docs-json').set('If-None-Match', '"x"').expect(200);
    await app.get('/health/live').set('If-Modified-Since', new Date().toUTCString()).expect(200);
  });

  it.each(['%', '%zz', '%E0%A4%A', '%c0%ae', '%ff'])('to the path parameter %s is a problem', async (text) => {
    const paths = [`/api/v0/users/${text}`, `/api/v0/admin/nodes/${text}`, `/api/v0/admin/app-credentials/${text}/x`];
    for (const path of paths) {
      const answer = await app.get(path).set('X-Admin-Key', ADMIN_KEY);
      // The last path belongs to no route, so that its parameter is not decoded.
      expectProblem(answer, path.endsWith('/x') ? problems.notFound : problems.malformedRequest);
    }
  });

  it.each([
    '1',
    'me',
    '%00',
    '%0d%0aSet-Cookie:%20a=b',
    randomUUID().slice(1),
    `${randomUUID()}0`,
    `{${randomUUID()}}`,
    'x'.repeat(4_000),
    '..%2f..%2fetc',
  ])('to the id %s is 404 on every route that takes one', async (id) => {
    const calls = [
      app.admin.get(`/users/${id}`),
      app.admin.patch(`/users/${id}`, { is_active: true }),
      app.admin.delete(`/users/${id}`),
      app.admin.get(`/users/${id}/sessions`),
      app.admin.delete(`/users/${id}/sessions`),
      app.admin.get(`/nodes/${id}`),
      app.admin.patch(`/nodes/${id}`, {}),
      app.admin.delete(`/nodes/${id}`),
      app.admin.post(`/nodes/${id}/rotate`),
      app.admin.get(`/app-credentials/${id}`),
      app.admin.delete(`/app-credentials/${id}`),
      app.admin.post(`/app-credentials/${id}/rotate`),
    ];
    for (const call of calls) {
      const answer = await call;
      expectProblem(answer, problems.notFound);
      expect(answer.headers).not.toHaveProperty('set-cookie');
    }
  });

  const lineOf = ({ headers }: Response, { log } = app) =>
    log.lines.find((line) => line.message === 'request' && line.request_id === headers['x-request-id']);

  it('has a request id of its own, and the one that the caller sent is logged', async () => {
    const call = async () => app.get('/nowhere').set('X-Request-Id', 'caller-1.a_B');
    const [first, second] = [await call(), await call()];
    expectProblem(first, problems.notFound);
    const id = first.headers['x-request-id'];
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(first.body).toMatchObject({ request_id: id, instance: `urn:request:${id}` });
    expect(second.headers['x-request-id']).not.toBe(id);
    expect(lineOf(first)).toMatchObject({ caller_request_id: 'caller-1.a_B' });
  });

  it.each([
    ['a node key', `pa_node_${'a-'.repeat(21)}`],
    ['a digest', 'f'.repeat(64)],
    ['nothing', ''],
    ['two words', 'two words'],
    ['129 characters', 'x'.repeat(129)],
    ['markup', '<script>'],
    ['an escape code', 'a%1b[31m'],
  ])('is logged without an X-Request-Id that has %s', async (_what, id) => {
    const answer = await app.get('/health/live').set('X-Request-Id', id);
    expect(lineOf(answer)).toMatchObject({ caller_request_id: undefined });
  });

  it('is logged with the address in X-Forwarded-For only if a proxy of TRUST_PROXY sent it', async () => {
    const behindProxy = await app.startReplica({ variables: { TRUST_PROXY: '1' } });
    for (const [replica, sent, address] of [
      [app, '203.0.113.7', '127.0.0.1'],
      [behindProxy, '203.0.113.7', '203.0.113.7'],
      [behindProxy, '203.0.113.7:4711', '203.0.113.7'],
      [behindProxy, '[2001:db8::7]:4711', '2001:db8::7'],
      [behindProxy, 'not-an-ip', '127.0.0.1'],
    ] as const) {
      const answer = await replica.get('/health/live').set('X-Forwarded-For', sent);
      expect(lineOf(answer, replica)).toMatchObject({ address });
    }
    await behindProxy.stop();
  });
});
