import request from 'supertest';
import { ADMIN_KEY } from '../support/settings.js';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp, useReplica } from '../support/use-app.js';

const ADMIN_UI = 'https://admin.example.org';
const LOCAL_UI = 'http://localhost:5173';
const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'content-type,x-admin-key',
};

describe('with CORS_ORIGINS', () => {
  const app = useApp({ variables: { CORS_ORIGINS: `${ADMIN_UI}, ${LOCAL_UI}` } });

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
    expect(headers['access-control-allow-methods']!.split(',')).toEqual(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE']);
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
