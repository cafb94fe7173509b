import { connect, type AddressInfo } from 'node:net';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

// Each of these was found by `npm run fuzz` (docs/fuzzing.md).
describe('a hostile request', () => {
  const app = useApp();

  /** Sends a raw request line and headers. @returns head and body of the response */
  const raw = async (...lines: string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
      socket.on('data', (chunk) => (answer += chunk.toString()));
      socket.on('error', reject).on('close', () => resolve(answer));
      socket.write(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`);
    });

  it.each(['__proto__=x', '%5f_proto__=x', 'limit=1&__proto__=x', 'constructor=x', 'toString=', 'hasOwnProperty=1'])(
    'with the query %s is refused on every kind of route',
    async (query) => {
      const { nodeId } = await app.node();
      const answers = [
        app.admin.get(`/nodes?${query}`),
        app.admin.get(`/nodes/${nodeId}?${query}`),
        app.post(`/internal/validate-node?${query}`),
        app.get(`/health/live?${query}`),
      ];
      for (const answer of answers) expectProblem(await answer, problems.validationFailed);
    },
  );

  it.each(['toString', 'valueOf', 'hasOwnProperty', '__defineGetter__', 'isPrototypeOf'])(
    'with the field %s, which every object inherits, is refused',
    async (name) => {
      const body = { email: 'alice@example.org', password: PASSWORD, [name]: '' };
      expectInvalid(await app.post('/api/v0/auth/register', body), `/${name}`);
    },
  );

  it('without a Host header, or with two, is refused with a problem', async () => {
    const malformed = /^HTTP\/1\.1 400 [^]*application\/problem\+json[^]*malformed_request/;
    expect(await raw('GET /health/live HTTP/1.1')).toMatch(malformed);
    expect(await raw('GET /health/live HTTP/1.1', 'Host: a', 'host: b')).toMatch(malformed);
    expect(await raw('GET /health/live HTTP/1.0')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('with an unknown Expect header is answered', async () => {
    expect(await raw('GET /health/live HTTP/1.1', 'Host: a', 'Expect: miracles')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it.each([
    ['If-Match', '"x"'],
    ['If-Unmodified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT'],
    ['Range', 'bytes=99999999-'],
  ])('with the precondition %s on the documentation is a 400, not a 500', async (name, value) => {
    expectProblem(await app.get('/docs/swagger-ui.css').set(name, value), problems.malformedRequest);
  });

  it.each(['/docs/swagger-ui.css/..', '/docs/.', '/DOCS/%2e%2E', '/docs/x/%2e./', '/docs/../docs'])(
    'to %s is not redirected to a path that it sent',
    async (path) => {
      const answer = await raw(`GET ${path}?hostile HTTP/1.1`, 'Host: a');
      expect(answer).toMatch(/^HTTP\/1\.1 404 [^]*not_found/);
      expect(answer).not.toContain('hostile');
    },
  );
});
