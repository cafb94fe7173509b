import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import request from 'supertest';
import { DEV_SECRETS } from '../../../src/cli/dev/fixed-values.js';
import { ADMIN_KEY, UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { sendRaw } from '../../support/raw-request.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { getCallerRequestId } from '../../../src/foundation/common/ids.js';
import { fromRoot } from '../../support/from-root.js';

const ADMIN_UI = 'https://admin.example.org';

const LOCAL_UI = 'http://localhost:5173';

const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'content-type,x-admin-key',
};

describe('with CORS_ORIGINS', () => {
  const app = useApp({ variables: { ...UNLEASED, CORS_ORIGINS: `${ADMIN_UI}, ${LOCAL_UI}` } });

  const corsHeadersOf = (headers: Record<string, string>): string[] =>
    Object.keys(headers).filter((name) => name.startsWith('access-control-'));
  const preflight = (path: string, origin: string) =>
    request(app.server)
      .options(path)
      .set({ Origin: origin, ...PREFLIGHT });

  it.each([ADMIN_UI, LOCAL_UI])('the page of %s may call /api/v0 and read the headers', async (origin) => {
    const { headers } = await app.get('/api/v0/admin/nodes').set({ Origin: origin, 'X-Admin-Key': ADMIN_KEY });
    expect(headers).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin' });
    const exposed = headers['access-control-expose-headers']!.split(',');
    expect(exposed).toEqual(expect.arrayContaining(['X-Request-Id', 'Retry-After', 'RateLimit', 'RateLimit-Policy']));
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('the preflight names the methods and headers that may be sent', async () => {
    const { status, headers, text } = await preflight('/api/v0/admin/nodes', ADMIN_UI);
    expect([status, text]).toEqual([204, '']);
    expect(headers).toMatchObject({ 'access-control-allow-origin': ADMIN_UI, vary: 'Origin' });
    expect(headers['access-control-allow-methods']!.split(',')).toEqual([
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
    ]);
    expect(headers['access-control-allow-headers']!.toLowerCase().split(',')).toEqual(
      expect.arrayContaining(['authorization', 'content-type', 'idempotency-key', 'x-admin-key']),
    );
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('the page may read a refusal too, also one that comes before routing', async () => {
    const refused = await app.get('/api/v0/users/me').set('Origin', ADMIN_UI);
    expectProblem(refused, problems.missingAccessToken);
    const unread = await app.post('/auth/login').type('form').send('a=b').set('Origin', ADMIN_UI);
    expectProblem(unread, problems.unsupportedMediaType);
    for (const { headers } of [refused, unread]) expect(headers['access-control-allow-origin']).toBe(ADMIN_UI);
  });

  it.each([
    'https://evil.example',
    'https://admin.example.org.evil.example',
    'http://admin.example.org',
    'https://admin.example.org:8443',
    'https://ADMIN.example.org',
    'null',
    '*',
  ])('a page of %s may not', async (origin) => {
    for (const answer of [
      await app.get('/api/v0/users/me').set('Origin', origin),
      await preflight('/api/v0/auth/login', origin),
    ]) {
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
      expect(answer.headers.vary).toBe('Origin');
    }
  });

  it('a response varies with the origin also without one', async () => {
    const { headers } = await app.get('/api/v0/users/me');
    expect(headers.vary).toBe('Origin');
    expect(headers).not.toHaveProperty('access-control-allow-origin');
  });

  it.each(['/internal/validate-node', '/health', '/docs', '/'])('a page may not call %s', async (path) => {
    expect(corsHeadersOf((await app.get(path).set('Origin', ADMIN_UI)).headers)).toEqual([]);
    const { headers } = await preflight(path, ADMIN_UI);
    expect(corsHeadersOf(headers)).toEqual([]);
    expect(headers.allow).toContain('OPTIONS');
  });

  it('OPTIONS that is not a preflight is answered with Allow', async () => {
    const { status, headers } = await request(app.server).options('/api/v0/auth/login').set('Origin', ADMIN_UI);
    expect([status, headers.allow]).toEqual([204, 'OPTIONS, POST']);
  });

  describe('unset', () => {
    const closed = useReplica(app, { variables: { CORS_ORIGINS: '' } });

    it('sends no CORS header', async () => {
      const { headers } = await closed.get('/api/v0/users/me').set('Origin', ADMIN_UI);
      expect(corsHeadersOf(headers)).toEqual([]);
      expect(headers).not.toHaveProperty('vary');
    });
  });
});

const app = useApp({ variables: UNLEASED });

describe('a request that does not arrive whole in time', () => {
  it('is 408, which is no verdict', async () => {
    const socket = new PassThrough();
    app.server.emit('clientError', Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket);
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(answer).toContain(`"code":"${problems.requestTimeout.code}"`);
  });
});

describe('the Host of a request', () => {
  const dev = useReplica(app, { variables: { SECRET_KEY: DEV_SECRETS.SECRET_KEY } });
  const get = (to: TestApp, path: string, host: string) => to.get(path).set('Host', host);

  it.each(['evil.example', 'localhost.evil.example:7701', '127.0.0.1.evil.example', '192.0.2.7:7701', '[::2]:7701'])(
    'with the public keys of platform-auth dev must be this machine (DNS rebinding): %s is 421',
    async (host) => {
      for (const path of ['/health/live', '/docs', '/internal/validate-node', '/api/v0/admin/nodes'])
        expectProblem(await get(dev, path, host), problems.misdirectedRequest);
      await get(app, '/health/live', host).expect(200);
    },
  );

  it.each(['localhost:7701', 'LOCALHOST', '127.0.0.1:7701', '127.3.2.1', '[::1]:7701'])(
    'with the public keys of platform-auth dev may be this machine: %s',
    async (host) => {
      await get(dev, '/health/live', host).expect(200);
    },
  );
});

interface Door {
  readonly header: string;
  readonly method: string;
  readonly path: string;
  readonly more?: string[];
}

const ID = randomUUID();

const DOORS: Door[] = [
  { header: 'X-API-Key', method: 'POST', path: '/internal/validate-node' },
  { header: 'X-Admin-Key', method: 'GET', path: '/api/v0/admin/nodes' },
  { header: 'Authorization', method: 'GET', path: '/api/v0/users/me' },
  { header: 'X-Platform-App-Id', method: 'POST', path: '/internal/validate-app', more: ['X-Platform-App-Key: k'] },
  { header: 'X-Platform-App-Key', method: 'POST', path: '/internal/validate-app', more: [`X-Platform-App-Id: ${ID}`] },
];

describe('a credential header', () => {
  describe.each(DOORS)('$header at $method $path', ({ header, method, path, more = [] }) => {
    const raw = (...values: string[]): Promise<string> =>
      sendRaw(
        app,
        `${method} ${path} HTTP/1.1`,
        'Host: localhost',
        'Content-Length: 0',
        ...more,
        ...values.map((value) => `${header}: ${value}`),
      );

    it.each([
      ['is absent', undefined],
      ['is empty', ''],
      ['is blank', '   '],
      ['has 8 KB', 'x'.repeat(8_192)],
      ['has 8 KB behind an id', `${ID}:${'x'.repeat(8_000)}`],
      ['has bytes that are no UTF-8', '\xff\xfe:\xc3\x28'],
      ['has UTF-8 in it', Buffer.from('ключ:ключ').toString('latin1')],
      ['has a tab in it', 'a\tb:c'],
      ['has a comma in it', 'a:b, a:b'],
      ['looks like SQL', `' OR 1=1 --:x`],
      ['names a prototype', '__proto__:constructor'],
    ])('is a 401 that does not repeat it when it %s', async (_name, value) => {
      const answer = await (value === undefined ? raw() : raw(value));
      expect(answer).toMatch(/^HTTP\/1\.1 401 [^]*\r\nContent-Type: application\/problem\+json/);
      expect(answer).toMatch(/\r\nWWW-Authenticate: /);
      if (value !== undefined && value.trim().length > 5) expect(answer).not.toContain(value);
    });

    it.each([
      ['a NUL', 'a\u0000b'],
      ['an escape code', 'a\u001b[31m'],
      ['a line break without the rest of one', 'a\rb'],
    ])('is a 400 when it contains %s', async (_name, value) => {
      expect(await raw(value)).toMatch(/^HTTP\/1\.1 400 [^]*application\/problem\+json/);
    });

    it.each([path, '/health/live', '/docs-json'])('is a 400 when sent twice to %s', async (to) => {
      const { port } = app.server.address() as AddressInfo;
      const good = header === 'X-Admin-Key' ? ADMIN_KEY : 'a:b';
      for (const values of [
        [good, good],
        [good, ''],
        ['', good],
        ['a', 'b', 'c'],
        [good, ...Array<string>(1_500).fill('filler'), good],
      ]) {
        const flat = values.flatMap((value, i) =>
          value === 'filler' ? ['a', 'b'] : [i % 2 ? header.toLowerCase() : header, value],
        );
        const headers = ['Host', 'localhost', ...flat];
        const outgoing = httpRequest({ port, host: '127.0.0.1', path: to, headers: headers });
        outgoing.end();
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
        let text = '';
        for await (const chunk of response) text += String(chunk);
        expect({ values, status: response.statusCode }).toEqual({ values, status: 400 });
        expect(text).toContain('duplicate_header');
      }
    });
  });
});

const SOURCES = fromRoot('src');

/** The prefixes of the secrets that the service issues, from its sources. */
const prefixes = [
  ...new Set(
    readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) =>
        [...readFileSync(join(SOURCES, name), 'utf8').matchAll(/'(pa_\w*_)'/g)].map(([, text]) => text!),
      ),
  ),
].sort();

const readId = (id: string): string | undefined => getCallerRequestId({ headers: { 'x-request-id': id } });

describe('X-Request-Id', () => {
  it('is looked at for every prefix of a secret that the service issues', () => {
    const kinds = ['admin', 'app', 'change', 'email', 'node', 'reset', 'rt'];
    expect(prefixes).toEqual(kinds.map((kind) => `pa_${kind}_`));
  });

  it.each(prefixes)('is not logged when it holds a secret: %s', (prefix) => {
    expect(readId(`${prefix}x`)).toBeUndefined();
    expect(readId(`my-${prefix}x`)).toBeUndefined();
    expect(readId('request-17')).toBe('request-17');
  });
});
