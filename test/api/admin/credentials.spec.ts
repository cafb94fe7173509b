import { randomUUID } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { ADMIN_KEY, PASSWORD, UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

type View = Readonly<Record<string, unknown>>;

const app = useApp({ variables: UNLEASED });
const inAMinute = (): string => new Date(app.clock.now().getTime() + 60_000).toISOString();

describe.each([
  {
    path: '/nodes',
    member: 'node_id',
    key: { api_key: expect.stringMatching(/^pa_node_[\w-]{43}\w{6}$/) as string },
    fields: () => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker' }),
    change: { room: 'hall' },
    secrets: ['api_key', 'node_id', 'key_digest', 'revoked_at'],
  },
  {
    path: '/app-credentials',
    member: 'app_id',
    key: { app_key: expect.stringMatching(/^pa_app_[\w-]{43}\w{6}$/) as string },
    fields: () => ({ caller: randomUUID(), target: 'recipes' }),
    change: { scopes: ['documents:read'] },
    secrets: ['app_key', 'app_id', 'key_digest', 'revoked_at'],
  },
  {
    path: '/operators',
    member: 'operator_id',
    key: { api_key: expect.stringMatching(/^pa_admin_[\w-]{43}\w{6}$/) as string },
    fields: () => ({ name: randomUUID(), scopes: ['read'] }),
    change: { scopes: ['apps'] },
    secrets: ['api_key', 'operator_id', 'key_digest', 'revoked_at'],
  },
])('/api/v0/admin$path', ({ path, member, key, fields, change, secrets }) => {
  const issue = async (more: object = {}): Promise<string> => {
    const { body } = await app.admin.post(path, { ...fields(), ...more }).expect(201);
    return `${path}/${(body as View)[member] as string}`;
  };

  it('shows the key of a new credential once, and where the credential is', async () => {
    const sent = fields();
    const { body, headers } = await app.admin.post(path, sent).expect(201);
    const shown = Object.fromEntries(Object.entries(body as View).filter(([name]) => !(name in key)));
    expect({ ...body, ...headers }).toMatchObject({ ...sent, ...key, 'cache-control': 'no-store', revoked_at: null });
    expect(headers.location).toBe(`/api/v0/admin${path}/${shown[member] as string}`);
    expect((await app.admin.get(`${path}/${shown[member] as string}`).expect(200)).body).toEqual(shown);
  });

  it('revokes a credential once, still shows it, and neither changes nor rotates it', async () => {
    const credential = await issue();
    await app.admin.delete(credential).expect(204);
    const { body } = await app.admin.get(credential).expect(200);
    expect(body).toMatchObject({ revoked_at: expect.any(String) as string });
    app.clock.advance({ minutes: 1 });
    await app.admin.delete(credential).expect(204);
    expect((await app.admin.get(credential).expect(200)).body).toEqual(body);
    expectProblem(await app.admin.patch(credential, change), problems.credentialRevoked);
    expectProblem(await app.admin.post(`${credential}/rotate`), problems.credentialRevoked);
  });

  it('does not rotate a credential that has expired', async () => {
    const credential = await issue({ expires_at: inAMinute() });
    app.clock.advance({ minutes: 2 });
    expectProblem(await app.admin.post(`${credential}/rotate`), problems.credentialExpired);
  });

  it.each(['1', 'not-an-id', randomUUID(), '%00', "'; drop table nodes"])('answers 404 to the id %p', async (id) => {
    for (const call of [
      app.admin.get(`${path}/${id}`),
      app.admin.patch(`${path}/${id}`, change),
      app.admin.delete(`${path}/${id}`),
      app.admin.post(`${path}/${id}/rotate`),
    ])
      expectProblem(await call, problems.notFound);
  });

  it.each([...secrets, '__proto__'])('answers 400 to the field %s', async (field) => {
    const body = JSON.stringify(fields()).replace('{', `{"${field}":"x",`);
    expectInvalid(await app.admin.post(path).type('json').send(body), `/${field}`);
  });
});

describe('an app credential', () => {
  it.each(['is new', 'has an expired credential', 'has a revoked credential'])(
    'accepts exactly one of 50 concurrent requests to issue a pair that %s',
    async (pairIs) => {
      const pair = { caller: randomUUID(), target: 'recipes' };
      if (pairIs !== 'is new') {
        const { body } = await app.admin.post('/app-credentials', { ...pair, expires_at: inAMinute() }).expect(201);
        if (pairIs.includes('expired')) app.clock.advance({ minutes: 1 });
        else await app.admin.delete(`/app-credentials/${body.app_id as string}`).expect(204);
      }
      const answers = await Promise.all(Array.from({ length: 50 }, () => app.admin.post('/app-credentials', pair)));
      const losers = answers.filter(({ status }) => status !== 201);
      expect(losers).toHaveLength(49);
      for (const loser of losers) expectProblem(loser, problems.appCredentialExists);
      const { items } = (await app.admin.get(`/app-credentials?caller=${pair.caller}`)).body as { items: View[] };
      expect(items.map(({ revoked_at }) => revoked_at === null)).toEqual(pairIs === 'is new' ? [true] : [false, true]);
    },
  );

  it('treats a reversed pair and another letter case as different pairs', async () => {
    const [a, b] = [`a${randomUUID()}`, `b${randomUUID()}`];
    for (const [caller, target] of [
      [a, b],
      [b, a],
      [a.toUpperCase(), b],
    ])
      await app.admin.post('/app-credentials', { caller, target }).expect(201);
  });

  it.each(['a b', '', 'x'.repeat(101), 'a\u0000', 'a\n', '-a', '../a', 'ä', 7, null, undefined, ['a'], { $ne: 1 }])(
    'answers 400 to the service name %p',
    async (name) => {
      expectInvalid(await app.admin.post('/app-credentials', { caller: name, target: 'b' }), '/caller');
      expectInvalid(await app.admin.post('/app-credentials', { caller: 'a', target: name }), '/target');
    },
  );
});

describe('a new user', () => {
  it.each(['/api/v0/auth/register', '/api/v0/admin/users'])('of POST %s is found at its Location', async (path) => {
    const account = { email: `${randomUUID()}@example.org`, password: PASSWORD };
    const { body, headers } = await app.post(path, account).set('X-Admin-Key', ADMIN_KEY).expect(201);
    const { body: found } = await app.get(headers.location!).set('X-Admin-Key', ADMIN_KEY).expect(200);
    expect(body).toMatchObject(found as object);
  });
});
