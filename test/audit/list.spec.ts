import { randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { TestApp } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';
import { monthsAgo, partitionOf } from './months.js';
import { pageOf, recorded, type Item } from './record.js';

describe('GET /api/v0/admin/audit-events', () => {
  const app = useApp();
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

  it('returns each row once, newest first, over all pages, also rows with the same time and rows that are still counted', async () => {
    const other = await TestApp.start({ clock });
    for (let index = 0; index < 3; index += 1) await other.login(`${randomUUID()}@example.org`).expect(401);
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
    ['subject', 'x'],
    ['subject', `unknown:${'g'.repeat(32)}`],
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
         'user.registered', 'user', n::text, n::text, null, null, 1, '{}' FROM generate_series(1, 5000) AS n`,
    );
    await app.database.query('ANALYZE audit_events');
    const month = partitionOf(await monthsAgo(app.database, 0));
    for (const where of [`subject = '7'`, `actor_id = '7'`, `event = 'user.registered'`, `time < '2200-01-01'`]) {
      const plan = JSON.stringify(await explain(where));
      expect({ where, plan, scans: plan.includes(`Seq Scan on ${month}`) }).toMatchObject({ where, scans: false });
      expect(plan).toContain(`Index Scan Backward using ${month}`);
    }
    expect(JSON.stringify(await explain(`time < '2020-01-01'`))).not.toMatch(/audit_events_2/);
  });
});
