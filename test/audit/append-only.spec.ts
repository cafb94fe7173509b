import { AuditJob } from '../../src/maintenance/maintenance.js';
import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD } from '../support/settings.js';
import { TestClock } from '../support/test-clock.js';
import { TestApp } from '../support/test-app.js';
import { oldMonth, partitionsOf } from './months.js';
import { recorded } from './record.js';

/** The months that the job creates ahead, from this one on. */
const monthsFrom = (moment: Date, count: number): string[] =>
  Array.from({ length: count }, (_, index) => {
    const month = new Date(Date.UTC(moment.getUTCFullYear(), moment.getUTCMonth() + index));
    return `audit_events_${month.toISOString().slice(0, 7).replace('-', '_')}`;
  });

describe('the table audit_events', () => {
  it('refuses UPDATE, DELETE and TRUNCATE in every partition, also from a superuser', async () => {
    const app = await TestApp.start();
    await app.user();
    await app.database.query(
      `INSERT INTO audit_events VALUES (gen_random_uuid(), '2001-01-01', 'user.registered', 'open', null, null, null, null, 1, '{}')`,
    );
    const before = await app.database.query('SELECT * FROM audit_events ORDER BY time');
    expect(before).toHaveLength(2);
    const tables = ['audit_events', monthsFrom(app.clock.now(), 1)[0]!, 'audit_events_default'];
    for (const table of tables) {
      for (const change of [`UPDATE ${table} SET event = 'x'`, `DELETE FROM ${table}`, `TRUNCATE ${table}`]) {
        await expect(app.database.query(change)).rejects.toThrow('audit_events is append-only');
      }
    }
    await expect(app.database.query(`UPDATE audit_events SET time = now()`)).rejects.toThrow('append-only');
    expect(await app.database.query('SELECT * FROM audit_events ORDER BY time')).toEqual(before);
    await app.stop();
  });

  it('gets its monthly partitions in advance, in one replica at a time, and drops them after their retention', async () => {
    const variables = { AUDIT_RETENTION_DAYS: '100' };
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
    for (let runs = 0; runs < old.length; runs += 1) await keep();
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
    const app = await TestApp.start({ clock });
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
    const app = await TestApp.start({ clock });
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
    const app = await TestApp.start();
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
