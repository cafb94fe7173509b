import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

type View = Readonly<Record<string, unknown>>;

const app = useApp();
const inAMinute = (): string => new Date(app.clock.now().getTime() + 60_000).toISOString();

describe.each([
  {
    path: '/nodes',
    member: 'node_id',
    fields: () => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker' }),
    change: { room: 'hall' },
    secrets: ['api_key', 'node_id', 'key_digest', 'revoked_at'],
  },
  {
    path: '/app-credentials',
    member: 'app_id',
    fields: () => ({ caller: randomUUID(), target: 'recipes' }),
    change: { scopes: ['documents:read'] },
    secrets: ['app_key', 'app_id', 'key_digest', 'revoked_at'],
  },
  {
    path: '/operators',
    member: 'operator_id',
    fields: () => ({ name: randomUUID(), scopes: ['read'] }),
    change: { scopes: ['apps'] },
    secrets: ['api_key', 'operator_id', 'key_digest', 'revoked_at'],
  },
])('/api/v0/admin$path', ({ path, member, fields, change, secrets }) => {
  const issue = async (more: object = {}): Promise<string> => {
    const { body } = await app.admin.post(path, { ...fields(), ...more }).expect(201);
    return `${path}/${(body as View)[member] as string}`;
  };

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
  it('accepts exactly one of 30 concurrent mints that replace an expired credential', async () => {
    const pair = { caller: randomUUID(), target: 'recipes' };
    const expires_at = inAMinute();
    await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
    app.clock.advance({ minutes: 1 });
    const answers = await Promise.all(Array.from({ length: 30 }, () => app.admin.post('/app-credentials', pair)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const loser of answers.filter(({ status }) => status !== 201)) {
      expectProblem(loser, problems.appCredentialExists);
    }
    const { items } = (await app.admin.get(`/app-credentials?caller=${pair.caller}`)).body as { items: View[] };
    expect(items.map(({ revoked_at }) => revoked_at === null)).toEqual([false, true]);
  });

  it('treats a reversed pair and another letter case as different pairs', async () => {
    const [a, b] = [`a${randomUUID()}`, `b${randomUUID()}`];
    for (const [caller, target] of [
      [a, b],
      [b, a],
      [a.toUpperCase(), b],
    ]) {
      await app.admin.post('/app-credentials', { caller, target }).expect(201);
    }
  });

  it.each(['a b', '', 'x'.repeat(101), 'a\u0000', 'a\n', '-a', '../a', 'ä', 7, null, ['a'], { $ne: 1 }])(
    'answers 400 to the service name %p',
    async (name) => {
      expectInvalid(await app.admin.post('/app-credentials', { caller: name, target: 'b' }), '/caller');
      expectInvalid(await app.admin.post('/app-credentials', { caller: 'a', target: name }), '/target');
    },
  );
});

describe('a 201', () => {
  it('has the path of the new resource as Location', async () => {
    const account = { email: 'alice@example.org', password: 'a perfectly fine passphrase' };
    const user = await app.post('/auth/register', account).expect(201);
    expect(user.headers.location).toBe(`/api/v0/users/${user.body.id}`);
    const answers = [
      await app.admin.post('/users', { ...account, email: 'bob@example.org' }),
      await app.admin.post('/app-credentials', { caller: 'ocr', target: 'recipes' }),
      await app.admin.post('/nodes', { household_id: randomUUID(), room: 'kitchen', name: 'speaker' }),
    ];
    for (const { status, headers, body } of answers) {
      expect(status).toBe(201);
      const { body: found } = await app.admin.get(headers.location!.replace('/api/v0/admin', '')).expect(200);
      expect(body).toMatchObject(found as object);
    }
  });
});
