import { connect, type AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { ADMIN_KEY } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

describe('HTTP hygiene', () => {
  // On a machine that stalls, the change feed would log lines of its own.
  const app = useApp({ variables: { REVOCATION_LEASE_MS: '0' } });

  const login = (body: string | Buffer, type = 'application/json') =>
    app.post('/api/v0/auth/login').set('Content-Type', type).send(body);

  /** Sends raw bytes. @returns head and body of the last response */
  const raw = (bytes: Buffer): Promise<string> =>
    new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1', () => socket.write(bytes));
      socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
      socket.on('end', () => resolve(answer));
      socket.on('error', reject);
    });

  const rawRequest = (head: string[], method = 'POST', path = '/internal/validate-node'): Promise<string> => {
    const lines = [`${method} ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', 'Content-Length: 0', ...head];
    return raw(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'));
  };

  describe('a body', () => {
    it.each([
      ['is cut off', '{"email":'],
      ['is a list', '[]'],
      ['is text', '"CANARY"'],
      ['is null', 'null'],
      ['is not JSON', 'CANARY'],
    ])('that %s is refused without being repeated', async (_name, body) => {
      const answer = await login(body);
      expectProblem(answer, problems.malformedRequest);
      expect(answer.text).not.toContain('CANARY');
    });

    it('nested 5,000 deep is refused before it is parsed', async () => {
      expectProblem(await login('{"email":'.repeat(5_000) + '1' + '}'.repeat(5_000)), problems.bodyTooDeep);
      expectProblem(await login(`{"email":${'['.repeat(5_000)}${']'.repeat(5_000)}}`), problems.bodyTooDeep);
    });

    it('of more than 100 KB is refused, also when compressed', async () => {
      const big = JSON.stringify({ email: 'x'.repeat(101 * 1_024) });
      expectProblem(await login(big), problems.payloadTooLarge);
      const bomb = gzipSync(Buffer.from(`{"email":"${'x'.repeat(20_000_000)}"}`));
      const answer = await app
        .post('/api/v0/auth/login')
        .set({ 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
        .serialize((body: unknown) => body as string)
        .send(bomb);
      expectProblem(answer, problems.payloadTooLarge);
    });

    it.each(['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data', 'application/xml'])(
      'of type %s is refused',
      async (type) => {
        expectProblem(await login('email=alice@example.org', type), problems.unsupportedMediaType);
      },
    );

    it.each(['iso-8859-1', 'utf-7', 'utf-16', 'x'])('in the charset %s is refused', async (charset) => {
      expectProblem(await login('{}', `application/json; charset=${charset}`), problems.unsupportedMediaType);
    });

    it.each(['utf-8', 'UTF-8', '"utf-8"'])('in the charset %s is accepted', async (charset) => {
      expectInvalid(await login('{}', `application/json; charset=${charset}`), '/email');
    });

    it('that is missing is reported with the missing fields', async () => {
      expectInvalid(await app.post('/api/v0/auth/login'), '/email');
    });
  });

  describe('headers', () => {
    it.each(['X-API-Key', 'X-Admin-Key', 'X-Platform-App-Id', 'X-Platform-App-Key', 'Authorization'])(
      'refuse %s sent twice, with any values',
      async (name) => {
        const answer = await rawRequest([`${name}: a`, `${name.toLowerCase()}: a`]);
        expect(answer).toMatch(/^HTTP\/1\.1 400 /);
        expect(answer).toContain(problems.duplicateHeader.code);
      },
    );

    it.each([
      ['headers that are dropped', ['If-None-Match: *', 'If-Modified-Since: 0']],
      ['a header named like a member of Object.prototype', ['__proto__: a', 'constructor: b']],
      ['headers that may come twice', ['Set-Cookie: a=b', 'Set-Cookie: c=d', 'Cookie: e=f', 'Cookie: g=h']],
    ])('refuse a credential that is sent twice beside %s', async (_name, others) => {
      for (const headers of [
        ['X-API-Key: a', ...others, 'x-api-key: b'],
        [...others, 'X-API-Key: a', 'x-api-key: b'],
      ]) {
        const answer = await rawRequest(headers);
        expect(answer).toMatch(/^HTTP\/1\.1 400 /);
        expect(answer).toContain(problems.duplicateHeader.code);
      }
      expect(await rawRequest([...others, 'X-API-Key: a'])).toMatch(/^HTTP\/1\.1 401 /);
    });

    it('with bytes that are not text are answered with 401, not 500', async () => {
      expect(await rawRequest(['X-API-Key: \xff\xfe:\xc3\xa9'])).toMatch(/^HTTP\/1\.1 401 /);
      expect(await rawRequest(['X-API-Key:'])).toMatch(/^HTTP\/1\.1 401 /);
    });

    it('that are not HTTP or too large are answered with a problem', async () => {
      expect(await raw(Buffer.from('GARBAGE\r\n\r\n'))).toMatch(
        /^HTTP\/1\.1 400 [^]*application\/problem\+json[^]*malformed_request/,
      );
      const large = await rawRequest([`X-API-Key: ${'x'.repeat(20_000)}`]);
      expect(large).toMatch(/^HTTP\/1\.1 431 [^]*application\/problem\+json[^]*headers_too_large/);
    });

    it('record a valid X-Request-Id', async () => {
      const sane = await app.get('/health/live').set('X-Request-Id', 'caller-1.a_B');
      const id = sane.headers['x-request-id'];
      expect(id).toMatch(/^[0-9a-f-]{36}$/);
      expect(app.log.lines.at(-1)).toMatchObject({ request_id: id, caller_request_id: 'caller-1.a_B' });
    });

    it.each([
      ['a node key', `pa_node_${'a-'.repeat(21)}`],
      ['a digest', 'f'.repeat(64)],
      ['nothing', ''],
      ['two words', 'two words'],
      ['129 characters', 'x'.repeat(129)],
      ['markup', '<script>'],
      ['an escape code', 'a%1b[31m'],
    ])('ignore an X-Request-Id with %s', async (_what, id) => {
      const answer = await app.get('/health/live').set('X-Request-Id', id);
      expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
      expect(app.log.lines.at(-1)).toMatchObject({ message: 'request', caller_request_id: undefined });
    });

    it('of a response do not name the framework, and forbid caching', async () => {
      const { headers } = await app.get('/health/live').expect(200);
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
      expect(Object.keys(headers)).not.toEqual(expect.arrayContaining(['x-powered-by']));
      expect(Object.keys(headers)).not.toEqual(expect.arrayContaining(['etag']));
    });

    it('trust X-Forwarded-For only from the proxies in TRUST_PROXY', async () => {
      const forged = '203.0.113.7';
      await app.get('/health/live').set('X-Forwarded-For', forged);
      expect(app.log.lines.at(-1)).toMatchObject({ address: '127.0.0.1' });
      const behindProxy = await app.startReplica({ variables: { TRUST_PROXY: '1' } });
      await behindProxy.get('/health/live').set('X-Forwarded-For', forged);
      expect(behindProxy.log.lines.at(-1)).toMatchObject({ address: forged });
      for (const [sent, address] of [
        ['203.0.113.7:4711', forged],
        ['[2001:db8::7]:4711', '2001:db8::7'],
        ['not-an-ip', '127.0.0.1'],
      ] as const) {
        await behindProxy.get('/health/live').set('X-Forwarded-For', sent);
        expect(behindProxy.log.lines.at(-1)).toMatchObject({ address });
      }
      await behindProxy.stop();
    });
  });

  describe('paths', () => {
    it.each([
      ['GET', '/nope', 404],
      ['GET', '/api/v0/auth/login', 405],
      ['PUT', '/api/v0/auth/login', 405],
      ['DELETE', '/internal/validate-node', 405],
      ['GET', '/api/v0/../../etc/passwd', 404],
    ])('%s %s are answered with a problem that does not repeat them', async (method, path, status) => {
      const answer = await rawRequest([], method, path);
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*application/problem\\+json`));
      expect(answer).not.toContain('passwd');
    });

    it('that are not UTF-8 are refused', async () => {
      expectProblem(await app.get('/api/v0/users/%E0%A4%A').set('X-Admin-Key', ADMIN_KEY), problems.malformedRequest);
    });
  });
});
