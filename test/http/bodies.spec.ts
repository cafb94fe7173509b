import { request as httpRequest } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

const LOGIN = '/api/v0/auth/login';

describe('a request body', () => {
  const app = useApp();

  const login = (body: Buffer | string, headers: Record<string, string> = {}) =>
    app
      .post(LOGIN)
      .set({ 'Content-Type': 'application/json', ...headers })
      .serialize((sent: unknown) => sent as string)
      .send(body as string);

  /** A chunked body of unknown length. */
  const chunked = async (type: string | undefined, body: string): Promise<number> => {
    const { port } = app.server.address() as AddressInfo;
    const headers = { 'Transfer-Encoding': 'chunked', ...(type !== undefined && { 'Content-Type': type }) };
    const outgoing = httpRequest({ port, host: '127.0.0.1', path: LOGIN, method: 'POST', headers });
    outgoing.write(body);
    outgoing.end();
    const [response] = (await once(outgoing, 'response')) as [import('node:http').IncomingMessage];
    response.resume();
    return response.statusCode!;
  };

  it('may be compressed with gzip or deflate, with a media type in any letter case and a UTF-8 charset', async () => {
    const { email } = await app.user();
    const text = JSON.stringify({ email, password: PASSWORD });
    await login(gzipSync(text), { 'Content-Encoding': 'gzip' }).expect(200);
    await login(deflateSync(text), { 'Content-Encoding': 'deflate' }).expect(200);
    await login(text, { 'Content-Type': 'Application/JSON; charset="UTF-8"' }).expect(200);
    expect(await chunked('application/json', text)).toBe(200);
  });

  it('may have at most 100 KB', async () => {
    const sized = (bytes: number): string => JSON.stringify({ email: 'x'.repeat(bytes - '{"email":""}'.length) });
    expectInvalid(await login(sized(100 * 1_024)), '/email');
    expectProblem(await login(sized(100 * 1_024 + 1)), problems.payloadTooLarge);
    expect(await chunked('application/json', sized(101 * 1_024))).toBe(413);
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const)('is measured after %s is undone', async (encoding, compress) => {
    const bomb = compress(Buffer.from(JSON.stringify({ email: 'x'.repeat(5_000_000) })));
    expect(bomb.length).toBeLessThan(50_000);
    expectProblem(await login(bomb, { 'Content-Encoding': encoding }), problems.payloadTooLarge);
  });

  it('that is not compressed as its Content-Encoding says is refused', async () => {
    expectProblem(await login('{}', { 'Content-Encoding': 'gzip' }), problems.malformedRequest);
    expectProblem(await login('{}', { 'Content-Encoding': 'zip' }), problems.unsupportedMediaType);
  });

  it.each(['br', 'BR', 'zstd', 'gzip, br'])(
    'compressed by %s is refused before it is decompressed',
    async (encoding) => {
      const body = brotliCompressSync(JSON.stringify({ email: 'alice@example.org', password: PASSWORD }));
      expectProblem(await login(body, { 'Content-Encoding': encoding }), problems.unsupportedMediaType);
    },
  );

  it.each([
    'application/x-www-form-urlencoded',
    'text/plain',
    'text/json',
    'application/json-patch+json',
    'application/jsonx',
    'json',
    '*/*',
    'application/json, text/plain',
  ])('as %s is refused', async (type) => {
    expectProblem(await login('{}', { 'Content-Type': type }), problems.unsupportedMediaType);
  });

  it('in chunks is held to the media type too', async () => {
    expect(await chunked('application/x-www-form-urlencoded', 'email=a')).toBe(415);
    expect(await chunked('text/plain', '{}')).toBe(415);
    expect(await chunked(undefined, '{}')).toBe(415);
  });

  it.each(['iso-8859-1', 'latin1', 'windows-1252', 'us-ascii', 'nonsense'])(
    'in the charset %s is refused',
    async (charset) => {
      const type = { 'Content-Type': `application/json; charset=${charset}` };
      expectProblem(await login(Buffer.from('{"email":"\xe9"}', 'latin1'), type), problems.unsupportedMediaType);
    },
  );

  it('with invalid UTF-8 is refused, not repaired', async () => {
    expectInvalid(await login('{"email":"\\ud800@example.org","password":"x"}'), '/email');
    expectInvalid(await login('{"email":"a@example.org","password":"\\udfff passphrase"}'), '/password');
  });

  it.each([15, 16, 17, 100, 5_000, 15_000])('nested %i deep is answered with 4xx, never 500', async (depth) => {
    for (const [open, close] of [
      ['{"email":', '}'],
      ['[', ']'],
    ] as const) {
      const { status } = await login(`{"email":${open.repeat(depth)}1${close.repeat(depth)}}`);
      expect({ open, isRefused: status >= 400 && status < 500 }).toEqual({ open, isRefused: true });
    }
  });

  it.each([
    'POST /internal/validate-node',
    'POST /internal/validate-app',
    'GET /health',
    'DELETE /api/v0/admin/nodes/x',
  ])('is held to the same rules on %s, before authentication', async (route) => {
    const [method, path] = route.split(' ') as ['POST' | 'GET' | 'DELETE', string];
    const name = method.toLowerCase() as 'post' | 'get' | 'delete';
    const send = (type: string, body: string) => app[name](path).set('Content-Type', type).send(body);
    expectProblem(await send('text/plain', 'x'), problems.unsupportedMediaType);
    expectProblem(await send('application/json', '{'), problems.malformedRequest);
    expectProblem(await send('application/json', '[1]'), problems.malformedRequest);
  });
});
