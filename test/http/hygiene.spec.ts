import { connect, type AddressInfo } from 'node:net';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

describe('HTTP hygiene', () => {
  // On a machine that stalls, the change feed would log lines of its own.
  const app = useApp({ variables: { REVOCATION_LEASE_MS: '0' } });

  const login = (body: string) => app.post('/api/v0/auth/login').set('Content-Type', 'application/json').send(body);

  /** Sends raw bytes. @returns head and body of the last response */
  const raw = (bytes: Buffer): Promise<string> =>
    new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1', () => socket.write(bytes));
      socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
      socket.on('end', () => resolve(answer));
      socket.on('error', reject);
    });

  const validateNode = (head: string[]): Promise<string> => {
    const line = 'POST /internal/validate-node HTTP/1.1';
    const lines = [line, 'Host: localhost', 'Connection: close', 'Content-Length: 0', ...head];
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

    it('that is missing is reported with the missing fields', async () => {
      expectInvalid(await app.post('/api/v0/auth/login'), '/email');
    });
  });

  describe('headers', () => {
    it.each([
      ['headers that are dropped', ['If-None-Match: *', 'If-Modified-Since: 0']],
      ['a header named like a member of Object.prototype', ['__proto__: a', 'constructor: b']],
      ['headers that may come twice', ['Set-Cookie: a=b', 'Set-Cookie: c=d', 'Cookie: e=f', 'Cookie: g=h']],
    ])('refuse a credential that is sent twice beside %s', async (_name, others) => {
      for (const headers of [
        ['X-API-Key: a', ...others, 'x-api-key: b'],
        [...others, 'X-API-Key: a', 'x-api-key: b'],
      ]) {
        const answer = await validateNode(headers);
        expect(answer).toMatch(/^HTTP\/1\.1 400 /);
        expect(answer).toContain(problems.duplicateHeader.code);
      }
      expect(await validateNode([...others, 'X-API-Key: a'])).toMatch(/^HTTP\/1\.1 401 /);
    });

    it('that are not HTTP or too large are answered with a problem', async () => {
      expect(await raw(Buffer.from('GARBAGE\r\n\r\n'))).toMatch(
        /^HTTP\/1\.1 400 [^]*application\/problem\+json[^]*malformed_request/,
      );
      const large = await validateNode([`X-API-Key: ${'x'.repeat(20_000)}`]);
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
});
