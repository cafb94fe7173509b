import { AuditJob, PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { oldMonth, partitionsOf } from '../audit/months.js';
import { scrape } from '../../support/scrape.js';
import { UNLEASED } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { TestClock } from '../../support/test-clock.js';
import { useApp } from '../../support/use-app.js';

const DAYS = 500;
const SKEWED = 'clock_skewed_nothing_is_deleted';

/** The number of rows of every table that retention deletes from. */
const CONTENTS = `SELECT
  (SELECT count(*)::int FROM sessions) AS sessions, (SELECT count(*)::int FROM nodes) AS nodes,
  (SELECT count(*)::int FROM app_credentials) AS apps, (SELECT count(*)::int FROM counted_refusals) AS windows,
  (SELECT count(*)::int FROM throttle_windows) AS counters, (SELECT count(*)::int FROM credential_changes) AS changes,
  (SELECT count(*)::int FROM audit_events) AS events`;

describe.each([
  ['ahead', DAYS],
  ['behind', -DAYS],
])('a replica whose clock is 500 days %s of PostgreSQL', (_name, days) => {
  const app = useApp({ variables: { ...UNLEASED, METRICS_PORT: '0' } });
  const { clock } = app;

  beforeAll(async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await alice.logsIn();
    await app.logout(refresh_token).expect(204);
    await app.login(alice.email, 'wrong password').expect(401);
    await app.admin.delete(`/nodes/${(await app.node()).nodeId}`).expect(204);
    await app.admin.delete(`/app-credentials/${(await app.service()).appId}`).expect(204);
    for (const months of [30, 20, 2]) await oldMonth(app.database, months);
    await app.nest.get(AuditJob).maintainAuditLog();
    // The oldest month was due; each run drops one.
    clock.drift({ days });
  });

  const state = async () => ({
    rows: (await app.database.query(CONTENTS))[0],
    months: await partitionsOf(app.database),
  });
  const run = async (): Promise<void> => {
    expect(await app.nest.get(PurgeJob).purgeExpired()).toBe(0);
    await app.nest.get(AuditJob).maintainAuditLog();
  };
  const lines = (message: string) => app.log.lines.filter((line) => line.message === message);

  it('deletes nothing and drops nothing, and warns once', async () => {
    await app.database.query(`UPDATE credential_changes SET at = now() - interval '600 days'`);
    await app.database.query(`UPDATE throttle_windows SET window_end = now() - interval '1 day'`);
    const before = await state();
    expect(before.rows).toMatchObject({ sessions: 2, nodes: 1, apps: 1, windows: 1 });
    expect(before.rows).not.toMatchObject({ counters: 0 });
    await run();
    await run();
    expect(await state()).toEqual(before);
    expect(lines(SKEWED)).toMatchObject([{ level: 'warn' }]);
    expect(lines(SKEWED)[0]!.skew_seconds! / 86_400).toBeCloseTo(days, 0);
  });

  it('exports the difference as a metric', async () => {
    expect(((await scrape(app)).value('clock_skew_seconds') ?? 0) / 86_400).toBeCloseTo(days, 0);
  });

  it('catches up when its clock is right again, and logs that', async () => {
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
  it('drops at most one month of the audit log per run', async () => {
    const app = await TestApp.start({ variables: UNLEASED });
    const [oldest, older] = [await oldMonth(app.database, 30), await oldMonth(app.database, 20)];
    const dropped = async (): Promise<string[]> => {
      const before = await partitionsOf(app.database);
      await app.nest.get(AuditJob).maintainAuditLog();
      const after = await partitionsOf(app.database);
      return before.filter((name) => !after.includes(name));
    };
    expect(await dropped()).toEqual([oldest]);
    expect(await dropped()).toEqual([older]);
    expect(await dropped()).toEqual([]);
    await app.stop();
  });

  it('keeps a month of the past while it holds a row recorded since, when the clock of PostgreSQL was behind', async () => {
    const clock = new TestClock();
    const app = await TestApp.start({ variables: UNLEASED, clock });
    clock.advance({ days: -DAYS });
    const alice = await app.user();
    clock.advance({ days: DAYS });
    for (let runs = 0; runs < 3; runs += 1) await app.nest.get(AuditJob).maintainAuditLog();
    const found = await app.database.query<{ name: string }>(
      'SELECT tableoid::regclass::text AS name FROM audit_events WHERE subject = $1',
      [alice.id],
    );
    expect(found).toHaveLength(1);
    expect(found[0]!.name).toMatch(/^audit_events_\d{4}_\d\d$/);
    await app.stop();
  });
});
