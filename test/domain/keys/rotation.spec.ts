import { randomUUID } from 'node:crypto';
import { type Problem, problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { repeatRace } from '../../support/at-once.js';
import { holdRow } from '../../support/row-lock.js';
import type { TestApp } from '../../support/test-app.js';
import { useApp, useReplica } from '../../support/use-app.js';

interface Credential {
  readonly id: string;
  readonly key: string;
}

const app = useApp();
const replica = useReplica(app);

/** The keys of both kinds rotate alike (src/domain/keys/key-lifecycle.ts). */
const KINDS = [
  {
    kind: 'node',
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
  ({ path, table, names, prefix, refusal, createBody, validate }) => {
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
    const passes = async (credential: Credential, by = replica): Promise<void> => {
      expect((await validate(credential, by).expect(200)).body).toMatchObject({ valid: true, [idName]: credential.id });
    };
    const refused = async (credential: Credential): Promise<void> => {
      expectProblem(await validate(credential, replica), refusal);
    };

    it('accepts the old key until the first use of the new one, on every replica', async () => {
      const old = await issue();
      const fresh = await rotated(old);
      expect(fresh.key).toMatch(new RegExp(`^${prefix}[\\w-]{43}\\w{6}$`));
      expect(fresh.key).not.toBe(old.key);
      for (const by of [replica, app]) await passes(old, by);
      await passes(fresh, app);
      await refused(old);
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
      await refused(old);
    });

    it('shows the end of the overlap, which the first use of the new key clears', async () => {
      const old = await issue();
      const endsAfter = clock.now().getTime() + 3_600_000;
      const fresh = await rotated(old, { overlap_hours: 1 });
      const shown = (await app.admin.get(`${path}/${old.id}`).expect(200)).body as { previous_key_expires_at: string };
      expect(Date.parse(shown.previous_key_expires_at)).toBeGreaterThanOrEqual(endsAfter);
      await passes(fresh);
      expect((await app.admin.get(`${path}/${old.id}`)).body).toMatchObject({ previous_key_expires_at: null });
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
        await refused(old);
      }));

    it('concurrent with another rotation keeps the old key and one of the new keys', () =>
      repeatRace(async () => {
        const old = await issue();
        const rotations = Array.from({ length: 6 }, (_, index) => rotated(old, undefined, index % 2 ? app : replica));
        const fresh = await Promise.all(rotations);
        await passes(old);
        const answers = await Promise.all(fresh.map((each) => validate(each, app)));
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
        await refused(old);
      }));

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

    it('is 400 with an overlap that is not a number of hours up to a year', async () => {
      const { id } = await issue();
      for (const overlap_hours of [-1, 0.5, '24', 8_761, true, null, [1], { hours: 1 }])
        expectInvalid(await app.admin.post(`${path}/${id}/rotate`, { overlap_hours }), '/overlap_hours');
    });

    it.each(['1', randomUUID()])('is 404 for the id %p', async (id) => {
      expectProblem(await app.admin.post(`${path}/${id}/rotate`), problems.notFound);
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
