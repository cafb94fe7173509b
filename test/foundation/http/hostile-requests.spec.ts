import { request as httpRequest } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Response } from 'supertest';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { sendRaw } from '../../support/raw-request.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';
import { MAX_ERRORS, problems } from '../../../src/foundation/problems/problems.js';

const LOGIN = '/api/v0/auth/login';
/** What browsers heed, also in answers of the HTTP parser. */
const BROWSER_HEADERS = [
  /^Content-Security-Policy: default-src 'self';.*base-uri 'none'.*frame-ancestors 'none'.*object-src 'none'/m,
  /^Strict-Transport-Security: max-age=31536000; includeSubDomains\r$/m,
  /^Referrer-Policy: no-referrer\r$/m,
  /^X-Content-Type-Options: nosniff\r$/m,
];
const app = useApp({ variables: UNLEASED });

const send = (path: string, body: Buffer | string, headers: Record<string, string> = {}) =>
  app
    .post(path)
    .set({ 'Content-Type': 'application/json', ...headers })
    .serialize((sent: unknown) => sent as string)
    .send(body as string);
const login = (body: Buffer | string, headers?: Record<string, string>) => send(LOGIN, body, headers);

describe('a request body', () => {
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
    for (const type of ['Application/JSON; charset="UTF-8"', 'application/json; charset=utf-8'])
      await login(text, { 'Content-Type': type }).expect(200);
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
  });

  it.each(['br', 'BR', 'zstd', 'zip', 'gzip, br'])(
    'compressed by %s is refused before it is decompressed',
    async (encoding) => {
      const body = brotliCompressSync(JSON.stringify({ email: 'alice@example.org', password: PASSWORD }));
      expectProblem(await login(body, { 'Content-Encoding': encoding }), problems.unsupportedMediaType);
    },
  );

  it.each([
    'application/x-www-form-urlencoded',
    'text/plain',
    'multipart/form-data',
    'application/xml',
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

  it.each(['iso-8859-1', 'latin1', 'windows-1252', 'us-ascii', 'utf-7', 'utf-16', 'nonsense'])(
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

  it.each([15, 16, 17, 100, 5_000, 10_000])('nested %i deep below its object is refused', async (depth) => {
    for (const [open, close] of [
      ['{"email":', '}'],
      ['[', ']'],
    ] as const) {
      const answer = await login(`{"email":${open.repeat(depth)}1${close.repeat(depth)}}`);
      expectProblem(answer, depth < 16 ? problems.validationFailed : problems.bodyTooDeep);
    }
  });

  it.each([
    'POST /api/v0/auth/login',
    'POST /internal/validate-node',
    'POST /internal/validate-app',
    'GET /health',
    'DELETE /api/v0/admin/nodes/x',
  ])('is held to the same rules on %s, before authentication, and is not repeated', async (route) => {
    const [method = '', path = ''] = route.toLowerCase().split(' ');
    const sendAs = (type: string, body: string) =>
      app[method as 'post' | 'get' | 'delete'](path).set('Content-Type', type).send(body);
    expectProblem(await sendAs('text/plain', 'x'), problems.unsupportedMediaType);
    for (const body of ['{', '{"email":', '[]', '[1]', '"CANARY"', 'null', 'CANARY']) {
      const answer = await sendAs('application/json', body);
      expectProblem(answer, problems.malformedRequest);
      expect(answer.text).not.toContain('CANARY');
    }
  });

  it('that is missing is reported with the missing fields', async () => {
    expectInvalid(await app.post(LOGIN), '/email');
  });
});

/** The largest response to an anonymous request, except the static documentation. */
const MAX_ANSWER_BYTES = 20 * 1_024;

/** `{"0":value,"1":value,…,"z":value,…}` */
function objectOf(names: number, value = '1'): string {
  return `{${Array.from({ length: names }, (_, i) => `"${i.toString(36)}":${value}`).join(',')}}`;
}

function errorsOf({ body }: Response): { pointer: string; detail: string }[] {
  return (body as { errors: { pointer: string; detail: string }[] }).errors;
}

describe('an anonymous request causes little work:', () => {
  it.each([
    ['11,000 unknown names', objectOf(11_000)],
    ['33 unknown names', objectOf(33)],
    ['11,000 names one level down', `{"email":${objectOf(11_000)}}`],
    ['names in many small objects', `{"email":${objectOf(9, objectOf(9))}}`],
    ['a list of 50,000 items', `{"email":[${'1,'.repeat(49_999)}1]}`],
    ['a list of 30,000 objects', `{"email":[${'{},'.repeat(29_999)}{}]}`],
  ])('a body with %s is refused before it is parsed, with one error', async (_what, body) => {
    for (const path of [LOGIN, '/api/v0/auth/register', '/internal/validate-app', '/internal/validate-node']) {
      const answer = await send(path, body);
      expectInvalid(answer, '');
      expect(errorsOf(answer)).toEqual([{ pointer: '', detail: 'has more than 32 names' }]);
      expect(answer.text.length).toBeLessThan(MAX_ANSWER_BYTES);
    }
  });

  it('names inside strings do not count', async () => {
    const body = JSON.stringify({ email: `${','.repeat(90)}"\\"[[[[{{{{`, password: '\\' });
    expectInvalid(await login(body), '/email');
  });

  it('a problem names at most 20 of the fields that it rejects', async () => {
    const answer = await login(objectOf(32));
    expectProblem(answer, problems.validationFailed);
    expect(errorsOf(answer)).toHaveLength(MAX_ERRORS);
    const ofQuery = await app.admin.get(`/nodes?${Array.from({ length: 32 }, (_, i) => `a${i}=1`).join('&')}`);
    expect(errorsOf(ofQuery)).toHaveLength(MAX_ERRORS);
  });

  it.each(['[]', '[1]', '{}', '{"a":[]}'].map((value) => [value]))(
    'a list is refused in any place: %s',
    async (value) => {
      const answer = await login(`{"email":${value === '{}' ? '[{}]' : value},"password":"x"}`);
      const pointer = value === '{"a":[]}' ? '/email/a' : '/email';
      expect(errorsOf(answer)).toEqual([{ pointer, detail: 'must not be a list' }]);
    },
  );

  it('a list under a name that the request does not have is refused for its name', async () => {
    const answer = await login('{"events":[{}],"password":"x"}');
    expect(errorsOf(answer)).toEqual([{ pointer: '/events', detail: 'is not a field of this request' }]);
  });

  it('a string longer than any field is refused before validation', async () => {
    expect(errorsOf(await login(JSON.stringify({ email: 'x'.repeat(8_193) })))).toEqual([
      { pointer: '/email', detail: 'must be text of at most 8192 characters' },
    ]);
  });

  it.each([
    ['5,000 short', 'a&'.repeat(5_000)],
    ['33 empty', '&'.repeat(33)],
    ['40 equal', 'limit=1&'.repeat(40)],
  ])('a query of %s parameters is refused on every kind of route', async (_what, parameters) => {
    const answers = [
      app.get(`/health/live?${parameters}`),
      app.get(`/docs?${parameters}`),
      app.admin.get(`/nodes?${parameters}`),
    ];
    for (const answer of await Promise.all(answers)) expectInvalid(answer, '');
  });

  it('a bearer of 16 KB is refused, with and without a space in it', async () => {
    const long = 'x'.repeat(15_000);
    const me = (authorization: string) => app.get('/api/v0/users/me').set('Authorization', authorization);
    expectProblem(await me(long), problems.missingAccessToken);
    expectProblem(await me(`Bearer ${long}`), problems.invalidAccessToken);
    expectProblem(await me(`Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ${long}.x`), problems.invalidAccessToken);
  });
});

// Each of these was found by `npm run fuzz` (docs/fuzzing.md).
describe('a hostile request', () => {
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
    expect(await sendRaw(app, 'GET /health/live HTTP/1.1')).toMatch(malformed);
    expect(await sendRaw(app, 'GET /health/live HTTP/1.1', 'Host: a', 'host: b')).toMatch(malformed);
    expect(await sendRaw(app, 'GET /health/live HTTP/1.0')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('that is not HTTP, or has headers that are too large, is refused with a problem', async () => {
    const garbage = await sendRaw(app, 'GARBAGE');
    expect(garbage).toMatch(/^HTTP\/1\.1 400 [^]*application\/problem\+json[^]*malformed_request/);
    const large = await sendRaw(app, 'GET /health/live HTTP/1.1', 'Host: a', `X-API-Key: ${'x'.repeat(20_000)}`);
    expect(large).toMatch(/^HTTP\/1\.1 431 [^]*application\/problem\+json[^]*headers_too_large/);
    for (const answer of [garbage, large]) for (const header of BROWSER_HEADERS) expect(answer).toMatch(header);
  });

  it.each([
    ['headers that are dropped', ['If-None-Match: *', 'If-Modified-Since: 0']],
    ['a header named like a member of Object.prototype', ['__proto__: a', 'constructor: b']],
    ['headers that may come twice', ['Set-Cookie: a=b', 'Set-Cookie: c=d', 'Cookie: e=f', 'Cookie: g=h']],
  ])('with a credential that is sent twice beside %s is refused', async (_name, others) => {
    const validateNode = (...headers: string[]) =>
      sendRaw(app, 'POST /internal/validate-node HTTP/1.1', 'Host: localhost', 'Content-Length: 0', ...headers);
    const duplicate = /^HTTP\/1\.1 400 [^]*duplicate_header/;
    expect(await validateNode('X-API-Key: a', ...others, 'x-api-key: b')).toMatch(duplicate);
    expect(await validateNode(...others, 'X-API-Key: a', 'x-api-key: b')).toMatch(duplicate);
    expect(await validateNode(...others, 'X-API-Key: a')).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('with an unknown Expect header is answered', async () => {
    expect(await sendRaw(app, 'GET /health/live HTTP/1.1', 'Host: a', 'Expect: miracles')).toMatch(/^HTTP\/1\.1 200 /);
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
      const answer = await sendRaw(app, `GET ${path}?hostile HTTP/1.1`, 'Host: a');
      expect(answer).toMatch(/^HTTP\/1\.1 404 [^]*not_found/);
      expect(answer).not.toContain('hostile');
    },
  );
});
