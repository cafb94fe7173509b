import type { ExplanationResponse } from '../../../src/api/admin/key-explanation.dto.js';
import { randomUUID } from 'node:crypto';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { ChangeLog } from '../../../packages/lease/src/change-feed.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { LeaseAnnouncement } from '../../../src/domain/revocation/lease-announcement.js';
import { eventually } from '../../../tools/eventually.js';
import { recorded } from '../../domain/audit/record.js';
import { pollChanges, type Changes } from '../../support/poll-changes.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { lockTables } from '../../support/row-lock.js';
import type { Service } from '../../support/test-app.js';
import { expectVerdict } from '../../support/until-verdict.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { ChangesService } from '../../../src/api/internal/changes.service.js';

describe('POST /internal/changes', () => {
  const app = useApp();
  const replica = useReplica(app);
  let service: Service;

  beforeAll(async () => {
    service = await app.service('recipes', 'auth');
  });

  const poll = (cursor?: unknown, on = app): Promise<Changes> => pollChanges(on, service, cursor);
  /** Follows the feed until it names a change of this id. */
  const changesUntil = async (cursor: string, id: string, on = app): Promise<Changes['changes']> => {
    const seen: Changes['changes'] = [];
    await eventually(`a change of ${id} is heard`, async () => {
      const answer = await poll(cursor, on);
      expect(answer.reset).toBe(false);
      seen.push(...answer.changes);
      cursor = answer.cursor;
      return seen.some((change) => change.id === id);
    });
    return seen;
  };

  it('hands the lease on, never for longer than the replica holds it', async () => {
    const first = await poll();
    expect(first).toMatchObject({ reset: true, lease_ms: 200, changes: [] });
    expect(first.fresh_for_ms).toBeGreaterThan(0);
    expect(first.fresh_for_ms).toBeLessThanOrEqual(200);
    expect(first.cursor.length).toBeLessThanOrEqual(4_096);
    expect(await poll(first.cursor)).toMatchObject({ reset: false, changes: [] });
  });

  it('answers 503 without a lease, also while the verdict on the caller and the log of changes are at hand', async () => {
    const { cursor } = await poll();
    const locker = await lockTables(app.database, 'credential_changes');
    const attempt = () => app.post('/internal/changes', { cursor }).set(service.headers);
    try {
      await eventually('the lease is over', async () => (await attempt()).status !== 200);
      expectProblem(await attempt(), problems.unavailable);
    } finally {
      await locker.end();
    }
    expect(await poll(cursor)).toMatchObject({ reset: false });
  });

  it('answers 503 without a lease on arrival, also when the replica has one before it could answer', async () => {
    const isHeld = jest.spyOn(app.nest.get(RevocationLease), 'remainingMs', 'get').mockReturnValueOnce(0);
    expectProblem(await app.post('/internal/changes').set(service.headers), problems.unavailable);
    expect(isHeld.mock.calls).toHaveLength(1);
    isHeld.mockRestore();
  });

  it('answers 503 while revoking calls may not see the announcement of the replica: it takes no lease then', async () => {
    const isCurrent = jest.spyOn(replica.nest.get(LeaseAnnouncement), 'isCurrent', 'get').mockReturnValue(false);
    const attempt = () => replica.post('/internal/changes').set(service.headers);
    await eventually('the lease is over', async () => (await attempt()).status !== 200);
    expectProblem(await attempt(), problems.unavailable);
    isCurrent.mockRestore();
    await eventually('it has a lease again', async () => (await attempt()).status === 200);
  });

  it('names revoked keys, ended sessions and changed users, on any replica, before the call that ended them answers', async () => {
    const [node, user] = [await app.node(), await app.user()];
    const { access_token } = await user.logsIn();
    const { body } = await app.admin.get(`/users/${user.id}/sessions`);
    const sessionId = (body as { items: { id: string }[] }).items[0]!.id;
    const { cursor } = await poll();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    await app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${access_token}`).expect(204);
    await app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200);
    const named = [
      { kind: 'node', id: node.nodeId },
      { kind: 'session', id: sessionId },
      { kind: 'user', id: user.id },
    ];
    for (const on of [app, replica])
      expect(await poll(cursor, on)).toMatchObject({ reset: false, changes: expect.arrayContaining(named) as unknown });
  });

  it('does not name rotations of refresh tokens, logins, rehashed passwords, or uses of keys', async () => {
    const user = await app.user();
    const rehashing = await app.startReplica({ variables: { BCRYPT_COST: '5' } });
    const hash = () => app.database.query('SELECT password_hash FROM users WHERE id = $1', [user.id]);
    const before = await hash();
    const node = await app.node();
    const { cursor } = await poll();
    const { refresh_token } = await user.logsIn(rehashing);
    expect(await hash()).not.toEqual(before);
    await rehashing.stop();
    await app.refresh(refresh_token).expect(200);
    await app.validateNode(node.header).expect(200);
    await app.admin.get(`/nodes/${node.nodeId}/explain`).expect(200);
    const marker = await app.node();
    await app.admin.delete(`/nodes/${marker.nodeId}`).expect(204);
    expect(await changesUntil(cursor, marker.nodeId)).toEqual([{ kind: 'node', id: marker.nodeId }]);
  });

  it.each([
    ['absent', undefined],
    ['not text', 5],
    ['unreadable', 'nonsense'],
    ['of another epoch', `${'0'.repeat(64)}/10:10:`],
    ['longer than 4 KB', `${'0'.repeat(64)}/1:9000000:${Array.from({ length: 2_000 }, (_, i) => i + 1).join(',')}`],
  ])('answers a reset, not a 400, to a cursor that is %s', async (_kind, cursor) => {
    expect(await poll(cursor)).toMatchObject({ reset: true, changes: [] });
  });

  it.each(['4294967296:4294967296:', '3:3:2', '5:4:', '3:5:4,3', '99999999999999999999:99999999999999999999:'])(
    'answers a reset to the snapshot %s, which PostgreSQL would refuse',
    async (snapshot) => {
      const { cursor } = await poll();
      expect(await poll(`${cursor.split('/')[0]}/${snapshot}`)).toMatchObject({ reset: true });
    },
  );

  it('answers a reset to a cursor that is older than what was purged', async () => {
    const [epoch] = (await poll()).cursor.split('/');
    await app.database.query(`UPDATE credential_change_purges SET purged = '4'`);
    expect(await poll(`${epoch}/4:4:`)).toMatchObject({ reset: true });
    expect(await poll(`${epoch}/4:6:4`)).toMatchObject({ reset: true });
  });

  it('names an ended session for an hour, and other changes for two days', async () => {
    const insert = `INSERT INTO credential_changes (xid, kind, credential_id, at)
      VALUES ('3', $1, gen_random_uuid(), now() - $2::interval) RETURNING credential_id AS id`;
    const add = async (kind: string, age: string): Promise<string> =>
      (await app.database.query<{ id: string }>(insert, [kind, age]))[0]!.id;
    const kept = [await add('session', '59 minutes')];
    const old = [await add('session', '61 minutes')];
    for (const kind of ['node', 'app', 'user', 'signing_key']) {
      kept.push(await add(kind, '47 hours'));
      old.push(await add(kind, '49 hours'));
    }
    const left = async (ids: string[]): Promise<number> =>
      (await app.database.query('SELECT FROM credential_changes WHERE credential_id = ANY ($1)', [ids])).length;
    // Another replica may be purging.
    await eventually('old changes are purged', async () => {
      await app.nest.get(PurgeJob).purgeExpired();
      return (await left(old)) === 0;
    });
    expect(await left(kept)).toBe(kept.length);
  });

  it('asks PostgreSQL for what a replica that started later cannot know', async () => {
    const { cursor } = await poll();
    const node = await app.node();
    await app.admin.delete(`/nodes/${node.nodeId}`).expect(204);
    const late = await app.startReplica();
    expect(await poll(cursor, late)).toMatchObject({ reset: false, changes: [{ kind: 'node', id: node.nodeId }] });
    await late.stop();
  });

  it('asks it once for polls that arrive together with the same cursor', async () => {
    const answered = { epoch: 'e'.repeat(64), snapshot: '5:5:', purged: '0', changes: [] };
    const asked: unknown[] = [];
    const row = (_statement: object, [snapshot]: unknown[]) => Promise.resolve(asked.push(snapshot) && answered);
    const given = [new ChangeLog(), { remainingMs: 400 }, { row }, {}, {}, { revocationLeaseMs: 500 }, {}];
    const changes = new ChangesService(...(given as unknown as ConstructorParameters<typeof ChangesService>));
    const [first, second] = ['3:3:', '4:4:'];
    const polls = [first, second, first, first].map((at) => changes.getChangesSince(`${answered.epoch}/${at}`));
    expect(asked).toEqual([]);
    expect(await Promise.all(polls)).toMatchObject(Array(4).fill({ cursor: `${answered.epoch}/5:5:`, reset: false }));
    expect(asked).toEqual([first, second]);
  });

  it('is a reset when more than 1,000 changes were made, also from the log', async () => {
    const { cursor } = await poll();
    const insert = `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
       SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'bulk', sha256(i::text::bytea), now(), now() FROM generate_series(1, 600) i`;
    await app.database.query(insert);
    for (const room of ['a', 'b']) await app.database.query(`UPDATE nodes SET room = '${room}' WHERE name = 'bulk'`);
    await eventually('the feed has read them', async () => (await poll(cursor)).reset);
    expect(await poll(cursor)).toMatchObject({ reset: true, changes: [] });
  });

  it('records uses for the service that reports them, clamps their age to an hour, and ends no overlap', async () => {
    const [node, other] = [await app.node(), await app.service('ocr', 'recipes')];
    await app.validateNode(node.header).expect(200);
    await app.admin.post(`/nodes/${node.nodeId}/rotate`).expect(200);
    const used = [
      { kind: 'node', id: node.nodeId.toUpperCase(), ago_ms: -1e12 },
      { kind: 'app', id: other.appId, ago_ms: 1e12 },
      { kind: 'node', id: randomUUID(), ago_ms: 1 },
    ];
    const from = app.clock.now().getTime();
    await expectVerdict(200, () => app.post('/internal/changes', { used }).set(service.headers));
    const until = app.clock.now().getTime();
    const keys = [`/nodes/${node.nodeId}`, `/app-credentials/${other.appId}`];
    for (const [path, agoMs] of keys.map((key, index) => [key, index * 3_600_000] as const)) {
      expect((await app.admin.get(`${path}/explain`).expect(200)).body).toMatchObject({ last_accepted_for: 'recipes' });
      const { last_used_at } = (await app.admin.get(path).expect(200)).body as { last_used_at: string };
      expect(Date.parse(last_used_at)).toBeGreaterThanOrEqual(from - agoMs);
      expect(Date.parse(last_used_at)).toBeLessThanOrEqual(until - agoMs);
    }
    await app.validateNode(node.header).expect(200);
  });

  it('records which key of a rotation a service accepted', async () => {
    const other = await app.service('speech', 'recipes');
    const path = `/app-credentials/${other.appId}`;
    await app.admin.post(`${path}/rotate`).expect(200);
    app.clock.advance({ minutes: 10 });
    const use = { kind: 'app', id: other.appId };
    const used = [
      { ...use, ago_ms: 60_000, previous: true },
      { ...use, ago_ms: 120_000 },
    ];
    await expectVerdict(200, () => app.post('/internal/changes', { used }).set(service.headers));
    const explained = (await app.admin.get(`${path}/explain`).expect(200)).body as ExplanationResponse;
    expect(explained).toMatchObject({ previous_key_last_accepted_for: 'recipes', last_accepted_for: 'recipes' });
    const { current_key_last_accepted_at: current, previous_key_last_accepted_at: previous } = explained;
    expect(Date.parse(previous!) - Date.parse(current!)).toBe(60_000);
    expect(explained.last_accepted_at).toBe(previous);
  });

  it('records no use of an app credential that another service than its target reports, also in place of that one', async () => {
    const [its, foreign] = [await app.service('logging', 'recipes'), await app.service('logging', 'speech')];
    const other = await app.service('imports', 'auth');
    const used = [its, foreign].map(({ appId: id }) => ({ kind: 'app', id, ago_ms: 0 }));
    for (const { headers } of [service, other])
      await expectVerdict(200, () => app.post('/internal/changes', { used }).set(headers));
    const explain = async (id: string) =>
      (await app.admin.get(`/app-credentials/${id}/explain`).expect(200)).body as object;
    expect(await explain(its.appId)).toMatchObject({ last_accepted_for: 'recipes' });
    expect(await explain(foreign.appId)).toMatchObject({ last_accepted_for: null });
    const events = await app.database.query(
      `SELECT subject, details FROM audit_events WHERE event = 'app.first_used' AND subject IN ('${its.appId}', '${foreign.appId}')`,
    );
    expect(events).toEqual([{ subject: its.appId, details: { called_service: 'recipes', reported_by: 'recipes' } }]);
  });

  it('names the service as the source of a reported first use, which does not hide the first use that a replica sees', async () => {
    const node = await app.node();
    const report = async () => {
      const used = [{ kind: 'node', id: node.nodeId, ago_ms: 0 }];
      await expectVerdict(200, () => app.post('/internal/changes', { used }).set(service.headers));
      await app.admin.get(`/nodes/${node.nodeId}/explain`).expect(200);
    };
    const { cursor } = await poll();
    const details = { called_service: 'recipes', reported_by: 'recipes' };
    const reported = { actor: { door: 'service', id: null }, details };
    const seen = { actor: { door: 'node', id: node.nodeId }, details: {} };
    const firstUses = () => recorded(app, { subject: node.nodeId, event: 'node.first_used' });
    await report();
    await report();
    expect(await firstUses()).toMatchObject([reported]);
    for (let use = 0; use < 2; use += 1) {
      await app.validateNode(node.header).expect(200);
      await report();
    }
    expect(await firstUses()).toMatchObject([seen, reported]);
    const marker = await app.node();
    await app.admin.delete(`/nodes/${marker.nodeId}`).expect(204);
    expect(await changesUntil(cursor, marker.nodeId)).toEqual([{ kind: 'node', id: marker.nodeId }]);
  });

  const use = { kind: 'node', id: randomUUID(), ago_ms: 0 };
  it.each([
    ['used is not a list', { used: {} }, '/used'],
    ['more than 500 uses', { used: Array(501).fill(use) }, '/used'],
    ['an unknown kind', { used: [{ ...use, kind: 'user' }] }, '/used/0/kind'],
    ['an id that is not a UUID', { used: [{ ...use, id: 'x' }] }, '/used/0/id'],
    ['a scope of a node', { used: [{ ...use, scope: 'read' }] }, '/used/0/scope'],
    ['an age that is text', { used: [{ ...use, ago_ms: '1' }] }, '/used/0/ago_ms'],
    ['an unknown field', { curser: 'x' }, ''],
  ])('answers 400 to %s', async (_case, body, pointer) => {
    const answer = await app.post('/internal/changes', body).set(service.headers);
    expectInvalid(answer, pointer);
    expect(answer.text).not.toContain('curser');
  });

  it('accepts 500 uses, tells which service the key belongs to, and refuses what is not a JSON object', async () => {
    const many = { used: Array(500).fill(use) };
    const { headers } = await expectVerdict(200, () => app.post('/internal/changes', many).set(service.headers));
    expect(headers['x-platform-caller']).toBe('recipes');
    for (const text of ['{', '[]', 'null', '"text"'])
      await app.post('/internal/changes').set(service.headers).type('json').send(text).expect(400);
  });

  it('is open to app credentials for this service only, and parses nothing before', async () => {
    const other = await app.service('recipes', 'ocr');
    expectProblem(await app.post('/internal/changes', {}), problems.invalidAppCredentials);
    expectProblem(await app.post('/internal/changes', {}).set(other.headers), problems.invalidAppCredentials);
    expectProblem(await app.post('/internal/changes').type('json').send('{'), problems.invalidAppCredentials);
  });

  it('leaves no request line in the log', async () => {
    await poll();
    await app.get('/health/live');
    const routes = () => app.log.lines.map(({ route }) => route);
    await eventually('a later line is logged', () => routes().includes('/health/live'));
    expect(routes()).not.toContain('/internal/changes');
  });

  it('tells verifiers neither to poll nor to remember when the lease is 0', async () => {
    const unleased = await app.startReplica({ variables: { REVOCATION_LEASE_MS: '0' } });
    expect(await poll(undefined, unleased)).toMatchObject({ reset: true, lease_ms: 0, fresh_for_ms: 0, changes: [] });
    await unleased.stop();
  });
});
