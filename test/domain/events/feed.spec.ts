import { DataSource } from 'typeorm';
import { HOLD_AND_READ } from '../../../src/domain/events/event-feed.js';
import { MEASURE_LAG } from '../../../src/domain/events/event-lag.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { EventWaits } from '../../../src/domain/events/event-waits.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { Owner } from '../../support/owner.js';
import { openTransaction } from '../../support/row-lock.js';
import { withWrappedQueries, type Query } from '../../support/wrapped-queries.js';
import { useApp } from '../../support/use-app.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { Subscriber, tell, type Told } from './subscriber.js';

const app = useApp();

const query = <Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> =>
  app.database.query<Row>(sql, values);

async function deleteUsers(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) {
    const { id } = await app.user();
    await app.admin.delete(`/users/${id}`).expect(204);
    ids.push(id);
  }
  await tell(app);
  return ids;
}

interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

function countReadEvents({ Plans = [], ...node }: PlanNode): number {
  const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
  return Plans.reduce((sum, each) => sum + countReadEvents(each), node['Relation Name'] === 'events' ? rows : 0);
}

const listSubjects = (events: readonly Told[]): string[] => events.map(({ subject }) => subject.id);

/** Does the work once, between the statements HOLD and MOVE of a poll. */
function afterHold(work: () => PromiseLike<unknown>): (query: Query) => Query {
  let isDone = false;
  return (query) =>
    async function (sql, values) {
      const rows = await query.call(this, sql, values);
      if (sql.includes('SKIP LOCKED') && !isDone) {
        isDone = true;
        await work();
      }
      return rows;
    };
}

describe('POST /internal/events', () => {
  it('answers 403 to a service without a subscription', async () => {
    const service = await app.service(undefined, 'auth');
    expectProblem(await new Subscriber(app, service).poll(), problems.notSubscribed);
  });

  it('tells each committed act of the subscribed types in the order of the seals, and nothing of other types', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = await deleteUsers(3);
    const { events, ...rest } = await subscriber.read();
    expect(rest).toEqual({ more: false, reset: false });
    expect(listSubjects(events)).toEqual(ids);
    expect(events[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}:user\.deleted$/),
      type: 'user.deleted',
      time: expect.any(String),
      subject: { kind: 'user', id: ids[0] },
      data: {},
      cursor: expect.any(String),
    });
  });

  it('reads a rare type without passing over the events of other types', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted', 'node.revoked'], 'beginning');
    await query(`INSERT INTO events (seal, number, id, type, time, subject, data)
      SELECT i / 5, 1000 + i % 5, gen_random_uuid(), 'planted', now(), 'planted', '{}' FROM generate_series(1, 20000) i`);
    await query('ANALYZE events');
    const prepare = `PREPARE poll AS ${HOLD_AND_READ.text}`;
    const client = await openTransaction(app.database, `SET LOCAL plan_cache_mode = force_generic_plan; ${prepare}`);
    const poll = `EXECUTE poll ('${subscriber.name}', '${subscriber.consumer}', 30, NULL, NULL, NULL, 101)`;
    for (const statement of [poll, MEASURE_LAG]) {
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${statement}`);
      const scans = rows.map((row) => row['QUERY PLAN']).filter((line) => / on events\b/.test(line));
      expect(scans).not.toEqual([]);
      for (const scan of scans) expect(scan).toContain('events_type_idx');
    }
    await client.end();
    await query(`DELETE FROM events WHERE subject = 'planted'`);
  });

  it('rewinds to a moment without reading the events before it, also where many acts were sealed late', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    await query(`INSERT INTO events (seal, number, id, type, time, subject, data)
      SELECT 100000 + i / 5, 1000 + i % 5, gen_random_uuid(), 'planted', now() + i * interval '13 seconds', 'planted', '{}'
      FROM generate_series(0, 199999) i`);
    await query('ANALYZE events');
    for (const seal of [139_999, 139_000]) {
      const [planted] = await query<{ to: Date }>('SELECT min(time) AS to FROM events WHERE seal = $1', [seal]);
      const { to } = planted!;
      await query(
        `INSERT INTO events (seal, number, id, type, time, subject, data)
          SELECT $1::bigint + 1000, 2000 + i, gen_random_uuid(), 'planted', $2::timestamptz - interval '1 hour', 'planted', '{}'
          FROM generate_series(1, 150) i`,
        [seal, to],
      );
      await query('UPDATE event_subscriptions SET seal = 200000 WHERE service = $1', [subscriber.name]);
      const spy = jest.spyOn(DataSource.prototype, 'query');
      await app.admin.post(`${subscriber.path}/rewind`, { to: to.toISOString() }).expect(204);
      const [sql, values] = spy.mock.calls.find(([text]) => text.includes('time >= $1'))!;
      spy.mockRestore();
      const moved = await query('SELECT seal::integer FROM event_subscriptions WHERE service = $1', [subscriber.name]);
      expect(moved).toEqual([{ seal }]);
      const explain = `EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`;
      const [row] = await query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(explain, values as unknown[]);
      const [since] = await query<{ count: number }>('SELECT count(*)::integer FROM events WHERE time >= $1', [to]);
      expect(countReadEvents(row!['QUERY PLAN'][0].Plan)).toBe(since!.count);
    }
    await query(`DELETE FROM events WHERE subject = 'planted'`);
  });

  it('tells an act that committed late after acts that committed before it, and no act that was rolled back', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const insertion = `INSERT INTO audit_events (id, time, event, actor_door, subject, count, details)
      SELECT gen_random_uuid(), now(), 'user.deleted', 'open', gen_random_uuid(), 1, '{}'`;
    const slow = await openTransaction(app.database, insertion);
    const undone = await openTransaction(app.database, insertion);
    const [early] = await deleteUsers(1);
    const first = await subscriber.read();
    expect(listSubjects(first.events)).toEqual([early]);
    await slow.query('COMMIT');
    await undone.query('ROLLBACK');
    await tell(app);
    expect((await subscriber.read({ after: first.events[0]!.cursor })).events).toHaveLength(1);
    await Promise.all([slow.end(), undone.end()]);
  });

  it('tells an event again until it is acknowledged, and never moves the position with an answer', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = await deleteUsers(3);
    const first = await subscriber.read({ limit: 2 });
    expect(first.more).toBe(true);
    expect(listSubjects((await subscriber.read()).events)).toEqual(ids);
    const [one, two] = first.events as [Told, Told];
    expect(listSubjects((await subscriber.read({ after: two.cursor })).events)).toEqual(ids.slice(2));
    // An older cursor reads again from there, and does not move the position back.
    expect(listSubjects((await subscriber.read({ after: one.cursor })).events)).toEqual(ids.slice(1));
    expect(listSubjects((await subscriber.read()).events)).toEqual(ids.slice(2));
  });

  it('begins a new subscription now, or at the beginning, and an added type at the position', async () => {
    const [before] = await deleteUsers(1);
    const now = await Subscriber.to(app, ['user.deleted']);
    const all = await Subscriber.to(app, ['user.deleted'], 'beginning');
    expect((await now.read()).events).toEqual([]);
    expect(listSubjects((await all.read({ limit: 500 })).events)).toContain(before);
    const registered = await Subscriber.to(app, ['user.registered']);
    const [first, second] = await deleteUsers(2);
    const { events } = await registered.read();
    await registered.subscribe(['user.registered', 'user.deleted']);
    // The cursor was made before the type was added, and lies after the deletion of the first user.
    const later = await registered.read({ after: events[1]!.cursor });
    expect(listSubjects(later.events)).toEqual([first, first, second, second]);
  });

  it('continues at the stored position when a cursor is from before a rewind or a skip', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = await deleteUsers(2);
    const { events } = await subscriber.read();
    await subscriber.read({ after: events[0]!.cursor });
    await app.admin.post(`${subscriber.path}/rewind`, { to: '2001-01-01T00:00:00Z' }).expect(204);
    expect(listSubjects((await subscriber.read({ after: events[1]!.cursor, limit: 500 })).events)).toEqual(
      expect.arrayContaining(ids),
    );
    await app.admin.post(`${subscriber.path}/skip`, { all: true }).expect(204);
    expect((await subscriber.read({ after: events[0]!.cursor })).events).toEqual([]);
  });

  it('does not move the position when a rewind comes between HOLD and MOVE', async () => {
    const subscriber = await Subscriber.to(app, ['user.registered']);
    const ids = await deleteUsers(2);
    const { events } = await subscriber.read();
    await withWrappedQueries(
      afterHold(() => app.admin.post(`${subscriber.path}/rewind`, {}).expect(204)),
      () => subscriber.read({ after: events[1]!.cursor }),
    );
    expect(listSubjects((await subscriber.read({ limit: 500 })).events)).toEqual(expect.arrayContaining(ids));
  });

  it('does not move the position back when a later cursor comes between HOLD and MOVE', async () => {
    const subscriber = await Subscriber.to(app, ['user.registered']);
    await deleteUsers(2);
    const { events } = await subscriber.read();
    await withWrappedQueries(
      afterHold(() => subscriber.read({ after: events[1]!.cursor })),
      () => subscriber.read({ after: events[0]!.cursor }),
    );
    expect((await subscriber.read()).events).toEqual([]);
  });

  it('does not move the position when another process takes over between HOLD and MOVE', async () => {
    const subscriber = await Subscriber.to(app, ['user.registered']);
    await deleteUsers(1);
    const { events } = await subscriber.read();
    const takeOver = async () => {
      await query(`UPDATE event_subscriptions SET polled_at = now() - interval '31 seconds' WHERE service = $1`, [
        subscriber.name,
      ]);
      return subscriber.another().read();
    };
    await withWrappedQueries(afterHold(takeOver), () => subscriber.read({ after: events[0]!.cursor }));
    expect((await takeOver()).events).toEqual(events);
  });

  it('begins a subscription anew that was removed and made again, whatever cursor comes', async () => {
    const subscriber = await Subscriber.to(app, ['user.registered']);
    const ids = await deleteUsers(2);
    const { events } = await subscriber.read();
    await app.admin.delete(subscriber.path).expect(204);
    await subscriber.subscribe(['user.registered', 'user.deleted'], 'beginning');
    const { events: again } = await subscriber.read({ after: events[1]!.cursor, limit: 500 });
    expect(listSubjects(again)).toEqual(expect.arrayContaining(ids));
  });

  it('passes over the oldest unread event with a skip', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const [, second] = await deleteUsers(2);
    await app.admin.post(`${subscriber.path}/skip`, {}).expect(204);
    expect(listSubjects((await subscriber.read()).events)).toEqual([second]);
  });

  it.each([false, true])('skips no other event than the one that the call names, with all: %s', async (all) => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    await deleteUsers(1);
    const { id: event } = (await app.admin.get(subscriber.path).expect(200)).body.oldest_unread as Told;
    const skip = () => app.admin.post(`${subscriber.path}/skip`, { all, event });
    const answers = await Promise.all([skip(), skip()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 409]);
    expectProblem(await skip(), problems.eventNotNext);
    const [next] = await deleteUsers(1);
    expectProblem(await skip(), problems.eventNotNext);
    expect(listSubjects((await subscriber.read()).events)).toEqual([next]);
  });

  it('resets a cursor that is not of this history, until the cursor of the reset comes back', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    await deleteUsers(1);
    const { cursor } = (await subscriber.read()).events[0]!;
    const [, origin] = /([^.]+)$/.exec(cursor)!;
    for (const wrong of [
      'nonsense',
      cursor.replace(origin!, '1-00000001-0'),
      cursor.replace(/\.[0-9a-f]{32}\./, `.${'0'.repeat(32)}.`),
    ])
      expect(await subscriber.read({ after: wrong })).toMatchObject({ reset: true, events: [] });
    const { cursor: reset } = await subscriber.read({ after: 'nonsense' });
    expect(await subscriber.read({ after: reset })).toEqual({ events: [], more: false, reset: false });
    const [next] = await deleteUsers(1);
    expect(listSubjects((await subscriber.read()).events)).toEqual([next]);
  });

  it('notices a restore by the stored position too, which was restored with the database', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    await query(`UPDATE event_subscriptions SET origin = 'another' WHERE service = $1`, [subscriber.name]);
    const first = await subscriber.read();
    expect(first).toMatchObject({ reset: true, events: [] });
    expect(await subscriber.read()).toMatchObject({ reset: true });
    await app.admin.post(`${subscriber.path}/rewind`, {}).expect(204);
    const again = await subscriber.read({ after: first.cursor });
    expect(again.reset).toBe(true);
    expect(await subscriber.read({ after: again.cursor })).toMatchObject({ reset: false });
    expect(await subscriber.read()).toMatchObject({ reset: false });
  });

  it('resets every subscription when an operator says so', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    await deleteUsers(1);
    const { cursor } = (await subscriber.read()).events[0]!;
    const { body } = await app.admin.post('/event-subscriptions/reset').expect(200);
    expect(body.reset).toContain(subscriber.name);
    expect(await subscriber.read({ after: cursor })).toMatchObject({ reset: true });
  });

  it('resets a position that is older than what a purge took of its types, and no other', async () => {
    const [reads, lags] = [await Subscriber.to(app, ['user.deleted']), await Subscriber.to(app, ['user.deleted'])];
    const other = await Subscriber.to(app, ['app.revoked']);
    await deleteUsers(1);
    const { cursor } = (await reads.read()).events[0]!;
    await reads.read({ after: cursor });
    // An old event in a late seal, so that what is left does not tell what was taken.
    const [late] = await deleteUsers(1);
    await query(`UPDATE events SET time = now() - interval '400 days' WHERE subject = $1`, [late]);
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await query('SELECT FROM events WHERE subject = $1', [late])).toEqual([]);
    expect(await lags.read()).toMatchObject({ reset: true });
    expect(await reads.read({ after: cursor })).toMatchObject({ reset: true });
    expect(await other.read()).toMatchObject({ reset: false });
  });

  it('lets one consumer read, and another one 30 seconds after its last poll', async () => {
    const first = await Subscriber.to(app, ['user.deleted']);
    const second = first.another();
    await first.read();
    const refused = await second.poll();
    expect([refused.status, refused.body.code]).toEqual([409, 'events_busy']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    await query(`UPDATE event_subscriptions SET polled_at = now() - interval '31 seconds' WHERE service = $1`, [
      first.name,
    ]);
    await second.read();
    expect((await first.poll()).status).toBe(409);
  });

  it('answers 409 to polls while the subscription is locked, and lets none wait for its lock', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const reading = await openTransaction(
      app.database,
      `SELECT FROM event_subscriptions WHERE service = '${subscriber.name}' FOR UPDATE`,
    );
    // The lock ends after the answers, so that polls which wait for it would never answer.
    const answers = await Promise.all(Array.from({ length: 20 }, () => subscriber.poll()));
    for (const answer of answers) {
      expect([answer.status, answer.body.code]).toEqual([409, 'events_busy']);
      expect(answer.headers['retry-after']).toBe('1');
    }
    await reading.query('ROLLBACK');
    await reading.end();
    await subscriber.read();
  });

  it('answers 401 in place of events when the key was revoked while the poll waited', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const waits = app.nest.get(EventWaits);
    const waiting = subscriber.poll({ wait_seconds: 20 }).then((answer) => answer);
    while (waits.count < 1) await new Promise(setImmediate);
    // As another replica does it, of which the cache of this one does not know yet.
    await query('UPDATE app_credentials SET revoked_at = now() WHERE id = $1', [subscriber.service.appId]);
    await deleteUsers(1);
    expectProblem(await waiting, problems.invalidAppCredentials);
  });

  it('does not hold the subscription longer for a process that ended while its poll waited', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const waits = app.nest.get(EventWaits);
    const readPolledAt = async () =>
      query(`SELECT polled_at FROM event_subscriptions WHERE service = $1`, [subscriber.name]);
    const ended = subscriber.poll({ wait_seconds: 20 });
    ended.end(() => undefined);
    while (waits.count < 1) await new Promise(setImmediate);
    const heldAt = await readPolledAt();
    ended.abort();
    await deleteUsers(1);
    while (waits.count > 0) await new Promise(setImmediate);
    // Sent later than what a second read of the ended poll would send.
    for (let later = 0; later < 3; later += 1) await (await Subscriber.to(app, ['user.deleted'])).read();
    expect(await readPolledAt()).toEqual(heldAt);
  });

  it('answers 400 to a consumer that PostgreSQL cannot store', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    expectInvalid(await subscriber.poll({ consumer: 'a\u0000' }), '/consumer');
  });

  it('waits without a connection, and answers when an event of the types was copied', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const waiting = subscriber.read({ wait_seconds: 20 });
    const [id] = await deleteUsers(1);
    expect(listSubjects((await waiting).events)).toEqual([id]);
  });

  it('has one waiting poll for each service, and answers all of them at a stop', async () => {
    const [one, another] = [await Subscriber.to(app, ['user.deleted']), await Subscriber.to(app, ['user.deleted'])];
    const replica = await app.startReplica();
    const [first, second] = [new Subscriber(replica, one.service), new Subscriber(replica, another.service)];
    const waiting = [first.read({ wait_seconds: 20 }), second.read({ wait_seconds: 20 })];
    const waits = replica.nest.get(EventWaits);
    while (waits.count < 2) await new Promise(setImmediate);
    const replacing = first.read({ wait_seconds: 20 });
    expect(await waiting[0]).toMatchObject({ events: [] });
    waits.stop();
    await Promise.all([...waiting, replacing]);
    expect(await second.read({ wait_seconds: 20 })).toMatchObject({ events: [] });
    await replica.stop();
  });

  it('writes one receipt when a service acknowledges a deletion, also when it reads it again', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const [id] = await deleteUsers(1);
    const findReceipts = () =>
      query(
        `SELECT actor_door, details FROM audit_events WHERE event = 'user.deletion.acknowledged' AND subject = $1`,
        [id],
      );
    const { events } = await subscriber.read();
    expect(await findReceipts()).toEqual([]);
    await subscriber.read({ after: events[0]!.cursor });
    await app.admin.post(`${subscriber.path}/rewind`, {}).expect(204);
    const again = (await subscriber.read({ limit: 500 })).events.at(-1)!;
    await subscriber.read({ after: again.cursor });
    expect(await findReceipts()).toEqual([
      { actor_door: 'app', details: { service: subscriber.name, deletion: events[0]!.id.slice(0, 36) } },
    ]);
  });

  it('writes one receipt for each deletion when two polls of a consumer acknowledge at once', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = await deleteUsers(2);
    const [first, second] = (await subscriber.read()).events;
    await withWrappedQueries(
      afterHold(() => subscriber.read({ after: first!.cursor })),
      () => subscriber.read({ after: second!.cursor }),
    );
    const receipts = `SELECT FROM audit_events WHERE event = 'user.deletion.acknowledged' AND subject = ANY ($1)`;
    expect(await query(receipts, [ids])).toHaveLength(2);
  });

  it('writes no receipt when another history begins between HOLD and MOVE', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const [id] = await deleteUsers(1);
    const { cursor } = (await subscriber.read()).events[0]!;
    const setEpoch = (change: number) => query('UPDATE audit_settings SET epoch = epoch + $1', [change]);
    await withWrappedQueries(
      afterHold(() => setEpoch(1)),
      () => subscriber.read({ after: cursor }),
    );
    await setEpoch(-1);
    expect(
      await query(`SELECT FROM audit_events WHERE event = 'user.deletion.acknowledged' AND subject = $1`, [id]),
    ).toEqual([]);
  });

  it('writes no receipt for deletions that a reset passes over', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const [id] = await deleteUsers(1);
    const { cursor } = await subscriber.read({ after: 'nonsense' });
    await subscriber.read({ after: cursor });
    expect(
      await query(`SELECT FROM audit_events WHERE event = 'user.deletion.acknowledged' AND subject = $1`, [id]),
    ).toEqual([]);
  });

  it('tells that sessions end with the account, the password and the operator who disables it', async () => {
    const subscriber = await Subscriber.to(app, [
      'session.ended',
      'user.disabled',
      'user.credentials_changed',
      'user.deleted',
    ]);
    const [alice, bob, carol] = [await Owner.of(app), await Owner.of(app), await Owner.of(app)];
    await alice.elsewhere();
    await alice.changePassword().expect(204);
    await app.admin.patch(`/users/${bob.user.id}`, { is_active: false }).expect(200);
    await app.admin.delete(`/users/${bob.user.id}`).expect(204);
    await carol.deleteAccount().expect(204);
    await tell(app);
    const { events } = await subscriber.read();
    expect(events.map(({ type, subject, data }) => [type, subject.id, data])).toEqual([
      ['user.credentials_changed', alice.user.id, { what: 'password' }],
      ['session.ended', alice.user.id, { reason: 'password_changed', count: 1 }],
      ['user.disabled', bob.user.id, {}],
      ['session.ended', bob.user.id, { reason: 'disabled', count: 1 }],
      ['user.deleted', bob.user.id, {}],
      ['user.deleted', carol.user.id, {}],
      ['session.ended', carol.user.id, { reason: 'deleted', count: 1 }],
    ]);
  });
});

describe('/api/v0/admin/event-subscriptions/{service}', () => {
  it.each(['%00', 'a%20b', 'unknown'])('answers 404 to the service %s', async (name) => {
    const path = `/event-subscriptions/${name}`;
    for (const call of [
      app.admin.get(path),
      app.admin.get(`${path}/events`),
      app.admin.delete(path),
      app.admin.post(`${path}/rewind`, {}),
      app.admin.post(`${path}/skip`, {}),
    ])
      expectProblem(await call, problems.notFound);
  });

  it('answers 200 to each call that subscribes while others end the subscription', async () => {
    const { caller } = await app.service(undefined, 'auth');
    const path = `/event-subscriptions/${caller}`;
    const answers = await Promise.all(
      Array.from({ length: 30 }, async () =>
        Promise.all([app.admin.put(path, { types: ['user.deleted'] }), app.admin.delete(path)]),
      ),
    );
    for (const [subscribed, ended] of answers) {
      expect(subscribed.status).toBe(200);
      expect([204, 404]).toContain(ended.status);
    }
  });

  it.each(['auth', 'AUTH', 'unknown'])(
    'answers 400 to a subscription of %s, which reads no events here',
    async (name) => {
      expectInvalid(await app.admin.put(`/event-subscriptions/${name}`, { types: ['user.deleted'] }), '/service');
    },
  );

  it('answers 400 to a subscription of a service whose credential is for another service, or is revoked', async () => {
    const [other, revoked] = [await app.service(undefined, 'ocr'), await app.service(undefined, 'auth')];
    await app.admin.delete(`/app-credentials/${revoked.appId}`).expect(204);
    for (const { caller } of [other, revoked]) {
      const answer = await app.admin.put(`/event-subscriptions/${caller}`, { types: ['user.deleted'] });
      expectInvalid(answer, '/service');
      expect(answer.body.errors[0].detail).toBe('has no live app credential for auth, with which it reads events');
    }
  });
});
