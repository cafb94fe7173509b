import { AuditJob } from '../../src/maintenance/audit.job.js';
import { PurgeJob } from '../../src/maintenance/purge.job.js';
import { oldMonth, partitionsOf } from '../audit/months.js';
import { scrape } from '../support/scrape.js';
import { TestApp } from '../support/test-app.js';
import { TestClock } from '../support/test-clock.js';

const DAYS = 500;
const SKEWED = 'clock_skewed_nothing_is_deleted';

/** Everything that retention may delete, one row of each that is kept and one that is due. */
const CONTENTS = `SELECT
  (SELECT count(*)::int FROM sessions) AS sessions, (SELECT count(*)::int FROM nodes) AS nodes,
  (SELECT count(*)::int FROM app_credentials) AS apps, (SELECT count(*)::int FROM failed_logins) AS windows,
  (SELECT count(*)::int FROM throttle_counters) AS counters, (SELECT count(*)::int FROM credential_changes) AS changes,
  (SELECT count(*)::int FROM audit_events) AS events`;

describe.each([
  ['ahead', DAYS],
  ['behind', -DAYS],
])('a replica whose clock is 500 days %s of PostgreSQL', (_name, days) => {
  const clock = new TestClock();
  let app: TestApp;

  beforeAll(async () => {
    app = await TestApp.start({ clock, variables: { METRICS_PORT: '0' } });
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await alice.logsIn();
    await app.logout(refresh_token).expect(204);
    await app.login(alice.email, 'wrong password').expect(401);
    await app.admin.delete(`/nodes/${(await app.node()).nodeId}`).expect(204);
    await app.admin.delete(`/app-credentials/${(await app.service()).appId}`).expect(204);
    for (const months of [30, 20, 2]) await oldMonth(app.database, months);
    await app.nest.get(AuditJob).run();
    // The first of them was due, and one month goes in each run.
    clock.drift({ days });
  });

  afterAll(async () => {
    await app.stop();
  });

  const state = async () => ({
    rows: (await app.database.query(CONTENTS))[0],
    months: await partitionsOf(app.database),
  });
  const run = async (): Promise<void> => {
    expect(await app.nest.get(PurgeJob).run()).toBe(0);
    await app.nest.get(AuditJob).run();
  };
  const lines = (message: string) => app.log.lines.filter((line) => line.message === message);

  it('deletes nothing and drops nothing, and warns once', async () => {
    await app.database.query(`UPDATE credential_changes SET at = now() - interval '600 days'`);
    await app.database.query(`UPDATE throttle_counters SET expire = 1`);
    const before = await state();
    expect(before.rows).toMatchObject({ sessions: 2, nodes: 1, apps: 1, windows: 1 });
    await run();
    await run();
    expect(await state()).toEqual(before);
    expect(lines(SKEWED)).toMatchObject([{ level: 'warn' }]);
    expect(lines(SKEWED)[0]!.skew_seconds! / 86_400).toBeCloseTo(days, 0);
  });

  it('shows the difference as a metric', async () => {
    expect(((await scrape(app)).value('clock_skew_seconds') ?? 0) / 86_400).toBeCloseTo(days, 0);
  });

  it('does what was due once its clock is right again, and says so', async () => {
    clock.drift({ days: -days });
    const before = await state();
    await run();
    const after = await state();
    expect(before.months.filter((name) => !after.months.includes(name))).toHaveLength(1);
    expect(after.rows).toMatchObject({ sessions: 2, nodes: 1, apps: 1, windows: 1, counters: 0 });
    await run();
    expect(lines('clock_agrees_again')).toHaveLength(1);
    expect(lines(SKEWED)).toHaveLength(1);
  });
});

describe('retention', () => {
  it('drops one month of the audit log at most in a run', async () => {
    const app = await TestApp.start();
    const [oldest, older] = [await oldMonth(app.database, 30), await oldMonth(app.database, 20)];
    const dropped = async (): Promise<string[]> => {
      const before = await partitionsOf(app.database);
      await app.nest.get(AuditJob).run();
      const after = await partitionsOf(app.database);
      return before.filter((name) => !after.includes(name));
    };
    expect(await dropped()).toEqual([oldest]);
    expect(await dropped()).toEqual([older]);
    expect(await dropped()).toEqual([]);
    await app.stop();
  });

  it('keeps a month of the past while it holds a row recorded since, by a replica whose clock was behind', async () => {
    const clock = new TestClock();
    const app = await TestApp.start({ clock });
    clock.drift({ days: -DAYS });
    const alice = await app.user();
    clock.drift({ days: DAYS });
    for (let runs = 0; runs < 3; runs += 1) await app.nest.get(AuditJob).run();
    const found = await app.database.query<{ name: string }>(
      'SELECT tableoid::regclass::text AS name FROM audit_events WHERE subject = $1',
      [alice.id],
    );
    expect(found).toHaveLength(1);
    expect(found[0]!.name).toMatch(/^audit_events_\d{4}_\d\d$/);
    await app.stop();
  });
});
