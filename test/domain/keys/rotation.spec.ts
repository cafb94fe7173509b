import { randomUUID } from 'node:crypto';
import { type Problem, problems } from '../../../src/foundation/problems/problems.js';
import { APP_KEYS, type AppKeys } from '../../../src/domain/app-credentials/app-credentials.service.js';
import { NODE_KEYS } from '../../../src/domain/nodes/nodes.service.js';
import type { KeyResponse } from '../../../src/api/admin/key.dto.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { repeatRace } from '../../support/at-once.js';
import { holdRow } from '../../support/row-lock.js';
import type { TestApp } from '../../support/test-app.js';
import { useApp, useReplica } from '../../support/use-app.js';

interface Credential {
  readonly id: string;
  readonly key: string;
}

type KeyAnswer = Readonly<Record<string, string>>;

const app = useApp();
const replica = useReplica(app);

/** The keys of both kinds rotate alike, but for the first use of the new one (src/domain/keys/key-lifecycle.ts). */
const KINDS = [
  {
    kind: 'node',
    isShared: false,
    store: NODE_KEYS,
    path: '/nodes',
    table: 'nodes',
    names: ['node_id', 'api_key'],
    prefix: 'pa_node_',
    refusal: problems.invalidNodeCredentials,
    createBody: () => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker' }),
    validate: ({ id, key }: Credential, by: TestApp) => by.validateNode(`${id}:${key}`),
  },
  {
    kind: 'service',
    isShared: true,
    store: APP_KEYS,
    path: '/app-credentials',
    table: 'app_credentials',
    names: ['app_id', 'app_key'],
    prefix: 'pa_app_',
    refusal: problems.invalidAppCredentials,
    createBody: () => ({ caller: randomUUID(), target: 'recipes' }),
    validate: ({ id, key }: Credential, by: TestApp) =>
      by.validateApp({ 'X-Platform-App-Id': id, 'X-Platform-App-Key': key }),
  },
] as const;

describe.each(KINDS)(
  'a rotation of the key of a $kind',
  ({ isShared, store, path, table, names, prefix, refusal, createBody, validate }) => {
    const { clock } = app;
    const [idName, keyName] = names;

    const issue = async (fields: object = {}): Promise<Credential> => {
      const { body } = await app.admin.post(path, { ...createBody(), ...fields }).expect(201);
      return { id: (body as Record<string, string>)[idName]!, key: (body as Record<string, string>)[keyName]! };
    };
    const rotated = async ({ id }: Credential, fields?: object, through = app): Promise<Credential> => {
      const { body } = await through.admin.post(`${path}/${id}/rotate`, fields).expect(200);
      return { id, key: (body as Record<string, string>)[keyName]! };
    };
    const show = async ({ id }: Credential): Promise<KeyResponse> =>
      (await app.admin.get(`${path}/${id}`).expect(200)).body as KeyResponse;
    const passes = async (credential: Credential, by = replica): Promise<void> => {
      expect((await validate(credential, by).expect(200)).body).toMatchObject({ valid: true, [idName]: credential.id });
    };
    const refused = async (credential: Credential, by = replica): Promise<void> => {
      expectProblem(await validate(credential, by), refusal);
    };
    /** Written each half minute otherwise. */
    const flush = async (): Promise<void> => {
      for (const { nest } of [app, replica]) await nest.get<AppKeys>(store, { strict: false }).flushLastUsed();
    };
    /** What a rotation leaves: the first use of a node's new key ends the old one. */
    const shares = isShared ? passes : refused;

    it(`accepts the old key ${isShared ? 'also after' : 'until'} the first use of the new one, on every replica`, async () => {
      const old = await issue();
      const fresh = await rotated(old);
      expect(fresh.key).toMatch(new RegExp(`^${prefix}[\\w-]{43}\\w{6}$`));
      expect(fresh.key).not.toBe(old.key);
      for (const by of [replica, app]) await passes(old, by);
      await passes(fresh, app);
      for (const by of [replica, app]) await (isShared ? passes(old, by) : refused(old, by));
      await passes(fresh);
    });

    it.each([
      ['24 hours by default', undefined, 24],
      ['as long as it says', { overlap_hours: 1 }, 1],
    ])('keeps the old key for %s when the new one is not used', async (_how, fields, hours) => {
      const old = await issue();
      const fresh = await rotated(old, fields);
      clock.advance({ minutes: hours * 60 - 1 });
      await passes(old);
      clock.advance({ minutes: 1 });
      await refused(old);
      await passes(fresh);
    });

    it('ends the old key at once with overlap_hours 0, also during an overlap and when the clock goes back', async () => {
      const old = await issue();
      const second = await rotated(old);
      const third = await rotated(old, { overlap_hours: 0 });
      for (const days of [0, -2]) {
        clock.advance({ days });
        await refused(old);
        await refused(second);
        await passes(third);
        clock.advance({ days: -days });
      }
    });

    it('keeps the old key when it is repeated because its response was lost', async () => {
      const old = await issue();
      const lost = await rotated(old);
      const fresh = await rotated(old);
      await passes(old);
      await refused(lost);
      await passes(fresh);
      await shares(old);
    });

    it(`shows the end of the overlap, which the first use of the new key ${isShared ? 'leaves' : 'clears'}`, async () => {
      const old = await issue();
      const endsAfter = clock.now().getTime() + 3_600_000;
      const fresh = await rotated(old, { overlap_hours: 1 });
      const { previous_key_expires_at } = await show(old);
      expect(Date.parse(previous_key_expires_at!)).toBeGreaterThanOrEqual(endsAfter);
      await passes(fresh);
      const left = isShared ? previous_key_expires_at : null;
      expect(await show(old)).toMatchObject({ previous_key_expires_at: left });
    });

    it.each<[string, (id: string) => unknown, Problem]>([
      ['a revoked', (id: string) => app.admin.delete(`${path}/${id}`).expect(204), problems.credentialRevoked],
      ['an expired', () => clock.advance({ minutes: 1 }), problems.credentialExpired],
    ])('leaves no valid key of %s credential, and is refused for it', async (_state, end, problem) => {
      const old = await issue({ expires_at: new Date(clock.now().getTime() + 60_000).toISOString() });
      const fresh = await rotated(old);
      await passes(old);
      await end(old.id);
      await refused(old);
      await refused(fresh);
      expectProblem(await app.admin.post(`${path}/${old.id}/rotate`), problem);
    });

    it('never locks out a client that validates meanwhile', () =>
      repeatRace(async () => {
        const old = await issue();
        const [fresh, ...answers] = await Promise.all([
          rotated(old),
          ...Array.from({ length: 6 }, (_, index) => validate(old, index % 2 ? app : replica)),
        ]);
        expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
        await Promise.all([passes(fresh), passes(fresh, app)]);
        await shares(old);
      }));

    it('concurrent with another rotation keeps the old key and one of the new keys', () =>
      repeatRace(async () => {
        const old = await issue();
        const rotations = Array.from({ length: 6 }, (_, index) => rotated(old, undefined, index % 2 ? app : replica));
        const fresh = await Promise.all(rotations);
        await passes(old);
        const answers = await Promise.all(fresh.map((each) => validate(each, app)));
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
        await shares(old);
      }));

    it('names the last use of each key, also before the rotation', async () => {
      const old = await issue();
      await passes(old);
      await flush();
      const [{ last_used_at }, rotatedAt] = [await show(old), clock.now().getTime()];
      expect(await show(old)).toMatchObject({ current_key_used_at: last_used_at, previous_key_used_at: null });
      const fresh = await rotated(old);
      expect(await show(old)).toMatchObject({ current_key_used_at: null, previous_key_used_at: last_used_at });
      clock.advance({ minutes: 1 });
      await passes(old);
      await flush();
      const used = await show(old);
      expect(used.current_key_used_at).toBeNull();
      expect(Date.parse(used.previous_key_used_at!)).toBeGreaterThanOrEqual(rotatedAt + 60_000);
      clock.advance({ minutes: 1 });
      await passes(fresh);
      await flush();
      const { current_key_used_at } = await show(old);
      expect(Date.parse(current_key_used_at!)).toBeGreaterThanOrEqual(rotatedAt + 120_000);
      expect(await show(old)).toEqual({
        ...used,
        last_used_at: current_key_used_at,
        current_key_used_at,
        previous_key_expires_at: isShared ? used.previous_key_expires_at : null,
      });
    });

    it('is 400 with an overlap that is not a number of hours up to a year', async () => {
      const { id } = await issue();
      for (const overlap_hours of [-1, 0.5, '24', 8_761, true, null, [1], { hours: 1 }])
        expectInvalid(await app.admin.post(`${path}/${id}/rotate`, { overlap_hours }), '/overlap_hours');
    });

    it.each(['1', randomUUID()])('is 404 for the id %p', async (id) => {
      expectProblem(await app.admin.post(`${path}/${id}/rotate`), problems.notFound);
    });

    if (isShared) return;

    it('concurrent with the first use of the new key keeps the key that was answered with 200', async () => {
      const old = await issue();
      const fresh = await rotated(old);
      const row = await holdRow(app.database, table, old.id);
      // The order in which they wait for the row: the rotation, then the end of the overlap.
      const second = rotated(old);
      await row.waiting(1);
      const firstUse = validate(fresh, replica).then(({ status }) => status);
      await row.waiting(2);
      await row.release();
      await second;
      const [answered, afterwards] = [await firstUse, (await validate(fresh, app)).status];
      expect({ answered, afterwards }).toEqual({ answered, afterwards: answered });
      // After 200 for the new key its client deletes the old one; after 401 it uses the old one again.
      await passes(answered === 200 ? fresh : old, app);
    });

    it('ends the old key at the earlier of two first uses by two replicas at once', async () => {
      const old = await issue();
      const fresh = await rotated(old);
      const lock = await holdRow(app.database, table, old.id);
      const earlier = validate(fresh, app).then(({ status }) => status);
      await lock.waiting(1);
      const latestEnd = clock.now();
      clock.advance({ seconds: 10 });
      const later = validate(fresh, replica).then(({ status }) => status);
      await lock.waiting(2);
      await lock.release();
      expect([await earlier, await later]).toEqual([200, 200]);
      const sql = `SELECT overlap_ended_at AS ended FROM ${table} WHERE id = $1`;
      const [row] = await app.database.query<{ ended: Date }>(sql, [old.id]);
      expect(row?.ended.getTime()).toBeLessThanOrEqual(latestEnd.getTime());
    });
  },
);

it('of a node that is no longer expired leaves its new key valid', async () => {
  const { nodeId } = await app.node();
  const { body } = await app.admin.post(`/nodes/${nodeId}/rotate`).expect(200);
  const { api_key } = body as { api_key: string };
  const expires_at = new Date(app.clock.now().getTime() - 1_000).toISOString();
  await app.admin.patch(`/nodes/${nodeId}`, { expires_at }).expect(200);
  expectProblem(await replica.validateNode(`${nodeId}:${api_key}`), problems.invalidNodeCredentials);
  await app.admin.patch(`/nodes/${nodeId}`, { expires_at: null }).expect(200);
  await replica.validateNode(`${nodeId}:${api_key}`).expect(200);
});

describe.each([
  { path: '/app-credentials', keyName: 'app_key', event: 'admin.app_credential.rotation_finished' },
  { path: '/operators', keyName: 'api_key', event: 'admin.operator.rotation_finished' },
])('the rotation of a key that replicas share ($path)', ({ path, keyName, event }) => {
  const isApp = path === '/app-credentials';

  const issue = async (): Promise<Credential> => {
    const name = randomUUID();
    const { body } = await app.admin
      .post(path, isApp ? { caller: name, target: 'recipes' } : { name, scopes: ['read'] })
      .expect(201);
    return { id: (body as KeyAnswer)[isApp ? 'app_id' : 'operator_id']!, key: (body as KeyAnswer)[keyName]! };
  };
  const rotate = ({ id }: Credential, fields?: object) => app.admin.post(`${path}/${id}/rotate`, fields);
  const rotated = async (old: Credential, fields?: object): Promise<Credential> => {
    const { body } = await rotate(old, fields).expect(200);
    return { id: old.id, key: (body as KeyAnswer)[keyName]! };
  };
  const finish = ({ id }: Credential, by: TestApp = app) => by.admin.post(`${path}/${id}/finish-rotation`);
  const use = ({ id, key }: Credential, by: TestApp = replica) =>
    isApp ? by.validateApp({ 'X-Platform-App-Id': id, 'X-Platform-App-Key': key }) : by.asAdmin(key).get('/nodes');
  const events = async ({ id }: Credential) =>
    ((await app.admin.get(`/audit-events?subject=${id}&event=${event}`).expect(200)).body as { items: object[] }).items;

  it('ends the old key everywhere when it is finished, with an audit event, and once', async () => {
    const old = await issue();
    const fresh = await rotated(old);
    for (const by of [app, replica]) for (const key of [old, fresh]) await use(key, by).expect(200);
    await finish(old).expect(204);
    for (const by of [app, replica]) {
      await use(old, by).expect(401);
      await use(fresh, by).expect(200);
    }
    await finish(old, replica).expect(204);
    expect(await events(old)).toMatchObject([
      { actor: { door: 'admin' }, details: { before: { previous_key_expires_at: expect.any(String) as string } } },
    ]);
  });

  it('is finished without an effect when there was none', async () => {
    const { id, key } = await issue();
    await finish({ id, key }).expect(204);
    await use({ id, key }).expect(200);
    expect(await events({ id, key })).toEqual([]);
    expectProblem(await finish({ id: randomUUID(), key }), problems.notFound);
  });

  it('does not rotate a third key in while the second is used, but instead of both', async () => {
    const old = await issue();
    const second = await rotated(old);
    await use(second, app).expect(200);
    expectProblem(await rotate(old), problems.rotationUnfinished);
    for (const key of [old, second]) await use(key).expect(200);
    const third = await rotated(old, { overlap_hours: 0 });
    for (const key of [old, second]) await use(key).expect(401);
    await use(third).expect(200);
  });

  it('does not rotate a third key in when only another replica has seen the second, at its first use', async () => {
    const old = await issue();
    const second = await rotated(old);
    await Promise.all(Array.from({ length: 20 }, () => use(second, replica).expect(200)));
    expectProblem(await rotate(old), problems.rotationUnfinished);
    for (const key of [old, second]) await use(key).expect(200);
  });

  it('rotates again once the last rotation is finished', async () => {
    const old = await issue();
    const second = await rotated(old);
    await use(second, app).expect(200);
    await finish(old).expect(204);
    const third = await rotated(old);
    await use(old).expect(401);
    for (const key of [second, third]) await use(key).expect(200);
  });
});
