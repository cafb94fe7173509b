import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

interface Page {
  readonly items: { readonly app_id: string }[];
  readonly next_cursor: string | null;
}

describe('/api/v0/admin/app-credentials', () => {
  const app = useApp();
  const { clock } = app;

  const page = async (query: string): Promise<Page> =>
    (await app.admin.get(`/app-credentials?${query}`).expect(200)).body as Page;

  it('lists each match exactly once over all pages, also while credentials are minted', async () => {
    const caller = randomUUID();
    const expected: string[] = [];
    for (let i = 0; i < 5; i++) expected.push((await app.service(caller, `target-${i}`)).appId);
    await app.service();
    const seen: string[] = [];
    let cursor: string | null = '';
    for (let i = 5; cursor !== null; i++) {
      const { items, next_cursor }: Page = await page(`caller=${caller}&limit=2${cursor && `&cursor=${cursor}`}`);
      seen.push(...items.map(({ app_id }) => app_id));
      cursor = next_cursor;
      if (i < 7) expected.push((await app.service(caller, `target-${i}`)).appId);
    }
    expect(seen).toEqual(expected);
  });

  it('returns no next cursor when the last page is exactly full', async () => {
    const caller = randomUUID();
    for (let i = 0; i < 2; i++) await app.service(caller, `target-${i}`);
    expect(await page(`caller=${caller}&limit=2`)).toMatchObject({ next_cursor: null });
    expect(await page(`caller=${randomUUID()}`)).toEqual({ items: [], next_cursor: null });
  });

  it.each([
    'limit=0',
    'limit=-1',
    'limit=101',
    'limit=1e1',
    'limit= 1',
    'limit=',
    'cursor=x',
    'cursor[a]=b',
    'caller=',
    'caller=a%20b',
    'target=%00',
    'key_digest=x',
  ])('answers 400 to the query %s', async (query) => {
    const { status, body } = await app.admin.get(`/app-credentials?${query}`);
    expect({ status, code: (body as { code: string }).code }).toEqual({ status: 400, code: 'validation_failed' });
  });

  it.each(['1', `${randomUUID()}x`, "' or 1=1", randomUUID().slice(1)])(
    'answers 400 to a cursor that it did not issue: %s',
    async (text) => {
      const cursor = Buffer.from(text).toString('base64url');
      expectInvalid(await app.admin.get(`/app-credentials?cursor=${cursor}`), '/cursor');
    },
  );

  it('shows when a credential was revoked, and revoking again does not change it', async () => {
    const { appId, caller } = await app.service();
    await app.admin.delete(`/app-credentials/${appId}`).expect(204);
    const { items } = await page(`caller=${caller}`);
    expect(items).toMatchObject([{ app_id: appId, revoked_at: expect.any(String) as string }]);
    clock.advance({ minutes: 1 });
    await app.admin.delete(`/app-credentials/${appId}`).expect(204);
    expect((await page(`caller=${caller}`)).items).toEqual(items);
  });

  it('accepts exactly one of 30 concurrent mints that replace an expired credential', async () => {
    const pair = { caller: randomUUID(), target: 'recipes' };
    const expires_at = new Date(clock.now().getTime() + 60_000).toISOString();
    await app.admin.post('/app-credentials', { ...pair, expires_at }).expect(201);
    clock.advance({ minutes: 1 });
    const answers = await Promise.all(Array.from({ length: 30 }, () => app.admin.post('/app-credentials', pair)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const loser of answers.filter(({ status }) => status !== 201)) {
      expectProblem(loser, problems.appCredentialExists);
    }
    const { items } = await page(`caller=${pair.caller}`);
    expect(items.map((item) => (item as unknown as { revoked_at: unknown }).revoked_at === null)).toEqual([
      false,
      true,
    ]);
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

  it.each(['app_key', 'app_id', 'key_digest', 'revoked_at', '__proto__'])(
    'answers 400 to the field %s',
    async (field) => {
      const body = `{"caller":"a","target":"b","${field}":"x"}`;
      expectInvalid(await app.admin.post('/app-credentials').type('json').send(body), `/${field}`);
    },
  );
});
