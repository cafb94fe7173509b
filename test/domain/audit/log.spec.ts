import { randomUUID } from 'node:crypto';
import type { Actor } from '../../../src/foundation/access/actor.js';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { AuditJob, SealJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { TestClock } from '../../support/test-clock.js';
import { TestApp } from '../../support/test-app.js';
import { monthsAgo, oldMonth, partitionOf, partitionsOf } from './months.js';
import { type Item, pageOf, recorded } from './record.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { eventually } from '../../../tools/eventually.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

/** The months that the job creates ahead, from this one on. */
const monthsFrom = (moment: Date, count: number): string[] =>
  Array.from({ length: count }, (_, index) => {
    const month = new Date(Date.UTC(moment.getUTCFullYear(), moment.getUTCMonth() + index));
    return `audit_events_${month.toISOString().slice(0, 7).replace('-', '_')}`;
  });

describe('the table audit_events', () => {
  it('refuses UPDATE, DELETE and TRUNCATE in every partition, also from a superuser', async () => {
    const app = await TestApp.start({ variables: UNLEASED });
    await app.user();
    await app.database.query(
      `INSERT INTO audit_events VALUES (gen_random_uuid(), '2001-01-01', 'user.registered', 'open', null, null, null, null, 1, '{}')`,
    );
    const before = await app.database.query('SELECT * FROM audit_events ORDER BY time');
    expect(before).toHaveLength(2);
    await app.nest.get(SealJob).sealNewRows();
    await app.database.query(`SELECT audit_events_add_month('2040-01-01')`);
    const months = [monthsFrom(app.clock.now(), 1)[0]!, 'audit_events_default', 'audit_events_2040_01'];
    for (const mode of ['origin', 'replica'])
      for (const table of ['audit_events', ...months, 'audit_seals']) {
        const update = `UPDATE ${table} SET ${table === 'audit_seals' ? 'number = 0' : `event = 'x'`}`;
        for (const change of [update, `DELETE FROM ${table}`, `TRUNCATE ${table}`]) {
          const inMode = app.database.query(`SET session_replication_role = ${mode}; ${change}`);
          // A statement for each row of an empty table changes nothing.
          if (table === 'audit_events_2040_01' && !change.startsWith('TRUNCATE')) await inMode;
          else await expect(inMode).rejects.toThrow('is append-only');
        }
      }
    await expect(app.database.query(`UPDATE audit_events SET time = now()`)).rejects.toThrow('append-only');
    expect(await app.database.query('SELECT * FROM audit_events ORDER BY time')).toEqual(before);
    await app.stop();
  });

  it('gets its monthly partitions in advance, in one replica at a time, and drops them after their retention', async () => {
    const variables = { ...UNLEASED, AUDIT_RETENTION_DAYS: '100' };
    const app = await TestApp.start({ variables });
    const replica = await app.startReplica();
    const keep = async () => {
      await Promise.all([app, replica].map(({ nest }) => nest.get(AuditJob).maintainAuditLog()));
      const failures = [app, replica].flatMap(({ log }) =>
        log.lines.filter(({ message }) => message === 'audit_job_failed'),
      );
      expect(failures).toEqual([]);
    };
    const alice = await app.user();
    await keep();
    const made = [...monthsFrom(app.clock.now(), 4), 'audit_events_default'].sort();
    expect(await partitionsOf(app.database)).toEqual(made);
    const old = [await oldMonth(app.database, 8), await oldMonth(app.database, 7)];
    const young = await oldMonth(app.database, 2);
    expect(await partitionsOf(app.database)).toEqual([...old, young, ...made].sort());
    // A run drops none while the chain of seals is locked.
    await eventually('the old months are dropped', async () => {
      await keep();
      return (await partitionsOf(app.database)).every((name) => !old.includes(name));
    });
    expect(await partitionsOf(app.database)).toEqual([young, ...made].sort());
    await keep();
    expect(await partitionsOf(app.database)).toEqual([young, ...made].sort());
    expect(await recorded(app, { subject: alice.id })).toMatchObject([{ event: 'user.registered' }]);
    expect(await app.database.query('SELECT time FROM audit_events')).toHaveLength(2);
    await replica.stop();
    await app.stop();
  });

  it('stores a row of a month without a partition in the default partition, and moves it later', async () => {
    const clock = new TestClock();
    const app = await TestApp.start({ variables: UNLEASED, clock });
    clock.advance({ days: 300 });
    const alice = await app.user();
    const where = () =>
      app.database.query('SELECT tableoid::regclass::text AS name FROM audit_events WHERE subject = $1', [alice.id]);
    expect(await where()).toEqual([{ name: 'audit_events_default' }]);
    const before = await recorded(app);
    await app.nest.get(AuditJob).maintainAuditLog();
    expect(await where()).toEqual([{ name: monthsFrom(clock.now(), 1)[0] }]);
    expect(await recorded(app)).toEqual(before);
    for (const change of ['DELETE FROM audit_events', 'TRUNCATE audit_events_default']) {
      await expect(app.database.query(change)).rejects.toThrow('append-only');
    }
    await app.stop();
  });

  it('loses no row that is written while rows are moved to their partition', async () => {
    const clock = new TestClock();
    const app = await TestApp.start({ variables: UNLEASED, clock });
    clock.advance({ days: 300 });
    const alice = await app.user();
    const logins = Array.from({ length: 60 }, () => alice.logsIn());
    await app.nest.get(AuditJob).maintainAuditLog();
    await Promise.all(logins);
    await app.nest.get(AuditJob).maintainAuditLog();
    const [found] = await app.database.query(
      `SELECT count(*)::int AS logins, array_agg(DISTINCT tableoid::regclass::text) AS months
       FROM audit_events WHERE event = 'user.login.succeeded'`,
    );
    expect(found).toEqual({ logins: 60, months: monthsFrom(clock.now(), 1) });
    await app.stop();
  });
});

describe('an act and its audit row', () => {
  it('are committed together or not at all', async () => {
    const app = await TestApp.start({ variables: UNLEASED });
    const [alice, node, service] = [await app.user(), await app.node(), await app.service()];
    const { refresh_token } = await alice.logsIn();
    await app.database.query('ALTER TABLE audit_events ADD CONSTRAINT full_disk CHECK (count < 0) NOT VALID');
    const state = () =>
      app.database.query(
        `SELECT (SELECT json_agg(users ORDER BY id) FROM users) AS users,
                (SELECT json_agg(sessions ORDER BY id) FROM sessions) AS sessions,
                (SELECT json_agg(nodes ORDER BY id) FROM nodes) AS nodes,
                (SELECT json_agg(app_credentials ORDER BY id) FROM app_credentials) AS app_credentials`,
      );
    const before = await state();
    const acts = [
      app.post('/api/v0/auth/register', { email: 'new@example.org', password: PASSWORD }),
      app.login(alice.email),
      app.logout(refresh_token),
      app.admin.post('/nodes', { household_id: node.householdId, room: 'hall', name: 'lamp' }),
      app.admin.patch(`/nodes/${node.nodeId}`, { room: 'attic' }),
      app.admin.post(`/nodes/${node.nodeId}/rotate`),
      app.admin.delete(`/nodes/${node.nodeId}`),
      app.admin.post('/app-credentials', { caller: 'one', target: 'two' }),
      app.admin.post(`/app-credentials/${service.appId}/rotate`),
      app.admin.delete(`/app-credentials/${service.appId}`),
      app.admin.post('/users', { email: 'new@example.org', password: PASSWORD }),
      app.admin.patch(`/users/${alice.id}`, { is_active: false }),
      app.admin.delete(`/users/${alice.id}/sessions`),
      app.admin.delete(`/users/${alice.id}`),
    ];
    for (const act of acts) expectProblem(await act, problems.internalError);
    expect(await state()).toEqual(before);
    await app.database.query('ALTER TABLE audit_events DROP CONSTRAINT full_disk');
    await app.refresh(refresh_token).expect(200);
    await app.stop();
  });
});

describe('GET /api/v0/admin/audit-events', () => {
  const { clock } = app;

  const events = (items: Item[]): string[] => items.map(({ event }) => event);

  it('filters by actor, subject, event and time', async () => {
    const alice = await app.user();
    clock.advance({ minutes: 1 });
    const start = clock.now().toISOString();
    clock.advance({ minutes: 1 });
    await alice.logsIn();
    clock.advance({ minutes: 1 });
    await app.login(alice.email, 'wrong password').expect(401);
    await app.admin.delete(`/users/${alice.id}/sessions`).expect(204);
    const all = await recorded(app, { subject: alice.id });
    expect(events(all).sort()).toEqual([
      'admin.user.sessions_revoked',
      'user.login.failed',
      'user.login.succeeded',
      'user.registered',
    ]);
    const login = all.find(({ event }) => event === 'user.login.succeeded')!;
    expect(await recorded(app, { subject: alice.id, event: 'user.login.succeeded' })).toEqual([login]);
    expect(events(await recorded(app, { actor: alice.id.toUpperCase() }))).toEqual([
      'user.login.succeeded',
      'user.registered',
    ]);
    expect(events(await recorded(app, { actor: 'admin' }))).toEqual(['admin.user.sessions_revoked']);
    expect(events(await recorded(app, { actor: 'open' }))).toEqual(['user.login.failed']);
    expect(await recorded(app, { actor: 'cli' })).toEqual([]);
    expect(await recorded(app, { since: start, until: login.time })).toEqual([]);
    expect(await recorded(app, { since: login.time, actor: alice.id })).toEqual([login]);
    const aMillisecondLater = new Date(Date.parse(login.time) + 1).toISOString();
    expect(await recorded(app, { since: login.time, until: aMillisecondLater })).toEqual([login]);
  });

  it('filters by a network and by a service as a subject', async () => {
    await app.asAdmin('not-the-key-of-anyone').get('/users').expect(401);
    await app.service('recipes', 'auth');
    await app.admin.put('/event-subscriptions/recipes', { types: ['user.deleted'] }).expect(200);
    for (const [subject, event] of [
      ['127.0.0.1', 'admin.key.refused'],
      ['recipes', 'admin.event_subscription.set'],
    ] as const)
      expect(await recorded(app, { subject })).toMatchObject([{ subject, event }]);
  });

  it('returns each row once, newest first, over all pages, also rows with the same time and rows that are still counted', async () => {
    const other = await TestApp.start({ variables: UNLEASED, clock });
    // Two random addresses may share a row.
    for (const name of ['a', 'b', 'c']) await other.login(`${name}@example.org`).expect(401);
    await other.database.query(
      `INSERT INTO audit_events (id, time, event, actor_door, count, details)
       SELECT gen_random_uuid(), timestamptz '2020-01-01' - (n / 3) * interval '20 days', 'user.registered', 'open', 1, '{}'
       FROM generate_series(0, 28) AS n`,
    );
    const items: Item[] = [];
    let cursor: string | null = null;
    do {
      const page = await pageOf(other, { limit: '5', ...(cursor !== null && { cursor }) });
      items.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(items).toHaveLength(32);
    expect(new Set(items.map(({ id }) => id)).size).toBe(32);
    const order = items.map(({ time, id }) => `${time} ${id}`);
    expect(order).toEqual([...order].sort().reverse());
    expect(events(items.slice(0, 3))).toEqual(Array(3).fill('user.login.failed'));
    await other.stop();
  });

  it.each([
    ['actor', 'alice'],
    ['actor', 'user'],
    ['subject', ''],
    ['subject', 'alice@example.org'],
    ['subject', 'operator:grace'],
    ['subject', `unknown:${'g'.repeat(32)}`],
    ['subject', 'x'.repeat(101)],
    ['event', 'session.refreshed'],
    ['event', ''],
    ['since', 'yesterday'],
    ['since', '2026-01-01'],
    ['until', '2026-13-01T00:00:00Z'],
    ['limit', '0'],
    ['limit', '101'],
    ['cursor', 'x'],
    ['cursor', Buffer.from(`9999999999999999 ${randomUUID()}`).toString('base64url')],
    ['cursor', Buffer.from(`1 ${randomUUID()}'--`).toString('base64url')],
    ['who', 'x'],
  ])('answers 400 to %s=%s', async (name, value) => {
    const answer = await app.admin.get(`/audit-events?${new URLSearchParams({ [name]: value }).toString()}`);
    expectInvalid(answer, `/${name}`);
  });

  it.each(['actor', 'subject', 'event', 'since', 'until', 'cursor'])(
    'answers 400 to the filter %s when it is sent twice',
    async (name) => {
      expectInvalid(await app.admin.get(`/audit-events?${name}=a&${name}=b`), `/${name}`);
    },
  );

  it('answers 401 to callers other than operators', async () => {
    expectProblem(await app.get('/api/v0/admin/audit-events'), problems.invalidAdminKey);
  });

  it('skips the partitions that a filter excludes, and reads a page by an index', async () => {
    const explain = (where: string) =>
      app.database.query(`EXPLAIN SELECT * FROM audit_events WHERE ${where} ORDER BY time DESC, id DESC LIMIT 51`);
    await app.database.query(
      `INSERT INTO audit_events SELECT gen_random_uuid(), date_trunc('month', now(), 'UTC') + n * interval '1 s',
         'user.registered', 'admin', n::text, n::text, null, null, 1, jsonb_build_object('operator', n::text)
       FROM generate_series(1, 5000) AS n`,
    );
    await app.database.query('ANALYZE audit_events');
    const month = partitionOf(await monthsAgo(app.database, 0));
    for (const where of [`subject = '7'`, `actor_id = '7'`, `event = 'user.registered'`, `time < '2200-01-01'`]) {
      const plan = JSON.stringify(await explain(where));
      expect({ where, plan, scans: plan.includes(`Seq Scan on ${month}`) }).toMatchObject({ where, scans: false });
      expect(plan).toContain(`Index Scan Backward using ${month}`);
    }
    const byOperator = await explain(`actor_door = 'admin' AND details ->> 'operator' = '7'`);
    expect(JSON.stringify(byOperator)).toContain(`Index Scan on ${month}_expr_time_id_idx`);
    expect(JSON.stringify(await explain(`time < '2020-01-01'`))).not.toMatch(/audit_events_2/);
  });
});

const FAILED = { event: 'user.login.failed' };

describe('failed logins', () => {
  const { clock } = app;

  const keep = () => Promise.all([app, replica].map(({ nest }) => nest.get(AuditJob).maintainAuditLog()));

  it('are one row for each account and window, with the exact count over all replicas', async () => {
    clock.enterNextWindow();
    const [alice, bob] = [await app.user(), await app.user()];
    const guesses = Array.from({ length: 40 }, (_, index) => (index % 2 ? app : replica));
    await Promise.all(guesses.map((each) => each.login(alice.email.toUpperCase(), 'wrong password').expect(401)));
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    await app.login(alice.email).expect(401);
    await app.login(bob.email, 'wrong password').expect(401);

    const open = await recorded(app, { ...FAILED, subject: alice.id });
    expect(open).toMatchObject([{ count: 41, details: { reasons: { wrong_password: 40, disabled: 1 } } }]);
    expect(await recorded(replica, { ...FAILED, subject: bob.id })).toMatchObject([{ count: 1 }]);

    clock.advance({ minutes: 15 });
    await keep();
    await app.login(alice.email).expect(401);
    clock.advance({ minutes: 2 });
    await Promise.all([keep(), keep()]);
    const both = await recorded(app, { ...FAILED, subject: alice.id });
    expect(both.map(({ count }) => count)).toEqual([1, 41]);
    expect(both[1]).toEqual(open[0]);
    expect(await app.database.query(`SELECT count FROM counted_refusals WHERE event = 'user.login.failed'`)).toEqual([
      { count: 1 },
    ]);
  });

  it('of an unknown e-mail address are counted the same way, without recording the address', async () => {
    clock.enterNextWindow();
    const [email, another] = ['nobody@example.org', 'no-other@example.org'];
    for (const each of [email, email, another]) await app.login(each).expect(401);
    const counts = (await recorded(app, FAILED)).slice(0, 2);
    expect(counts).toMatchObject([{ count: 1 }, { count: 2, details: { reasons: { unknown: 2 } } }]);
    expect(counts[1]!.subject).toMatch(/^unknown:[0-9a-f]{32}$/);
    expect(await recorded(app, { subject: counts[1]!.subject! })).toEqual([counts[1]]);
    expect(JSON.stringify(await app.database.query('SELECT * FROM counted_refusals'))).not.toContain('@');
  });

  it('are found by each of their last 20 request ids, and name the five most frequent addresses', async () => {
    clock.enterNextWindow();
    const { id: subject } = await app.user();
    const refusals = app.nest.get(CountedRefusals);
    const sources = [1, 2, 3, 4, 5, 6].flatMap((host) => Array<string>(host + 1).fill(`192.0.2.${host}`));
    const others = Array.from({ length: 40 }, (_, host) => `198.51.100.${host}`);
    const addresses = [...others, ...sources.flatMap((address) => [address, ...others.slice(0, 1)]), ...sources];
    const requests = addresses.map(() => randomUUID());
    for (const event of ['user.login.failed', 'app.validation.failed'] as const) {
      for (const [index, address] of addresses.entries()) {
        const actor: Actor = { door: 'open', id: null, requestId: requests[index]!, address };
        const [reason, about] = ['wrong_password', { counted: subject, subject }];
        if (event === 'user.login.failed') await refusals.countRefusal({ event, reason, ...about }, actor);
        else refusals.deferRefusal({ event, reason, ...about }, actor);
      }
      await refusals.flush();
      const filter = { event, subject };
      const named = async () => (await recorded(app, filter))[0]!.details.addresses as string[];
      expect(await named()).toContain('192.0.2.6');
      expect(await named()).toHaveLength(5);
      for (const request_id of [requests[0]!, ...requests.slice(-20)])
        expect(await recorded(app, { ...filter, request_id })).toMatchObject([{ count: requests.length }]);
      expect(await recorded(app, { ...filter, request_id: requests.at(-21)! })).toEqual([]);
      expect(await recorded(app, { ...filter, address: '192.0.2.6' })).toHaveLength(1);
      const [row] = await app.database.query<{ size: number }>(
        `SELECT max(pg_column_size(counted))::int AS size FROM counted_refusals AS counted WHERE subject = $1`,
        [subject],
      );
      expect(row!.size).toBeLessThan(2_000);
    }
  });

  it('of random addresses fill 256 rows a window, whose counts miss none', async () => {
    clock.enterNextWindow();
    const refusals = app.nest.get(CountedRefusals);
    const actor: Actor = { door: 'open', id: null, requestId: null, address: null };
    const event = 'user.login.failed';
    for (let batch = 0; batch < 50; batch += 1)
      await Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          refusals.countRefusal({ event, reason: 'unknown', counted: `${batch}-${index}@example.org` }, actor),
        ),
      );
    const [rows] = await app.database.query<{ rows: number; total: number }>(
      `SELECT count(*)::int AS rows, sum(count)::int AS total FROM counted_refusals WHERE subject LIKE 'unknown:%'
         AND window_start = (SELECT max(window_start) FROM counted_refusals)`,
    );
    expect(rows!.total).toBe(5_000);
    expect(rows!.rows).toBeLessThanOrEqual(256);
  });
});
