import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { AuditJob } from '../../src/maintenance/maintenance.js';
import { SECRET_KEY } from '../support/settings.js';
import { useAppPerTest } from '../support/use-app.js';
import { Auditor, insertion, seal, tamper } from './auditor.js';
import { oldMonth, partitionOf } from './months.js';

const SCENARIO_MS = 240_000;

describe('platform-auth audit verify', () => {
  const app = useAppPerTest();
  let auditor: Auditor;

  beforeEach(() => {
    auditor = new Auditor(app.database);
  });

  afterEach(() => auditor.cli.remove());

  /** The ids of new, sealed rows of the audit log. */
  const sealedRows = async (count: number): Promise<string[]> => {
    for (let made = 0; made < count; made += 1) await app.user();
    await seal(app);
    const rows = await app.database.query<{ id: string }>('SELECT id FROM audit_events ORDER BY time, id');
    return rows.map(({ id }) => id);
  };

  it(
    'names the rows that a superuser in replica mode changed, deleted, inserted and moved',
    async () => {
      const [changed, deleted, moved, , , details] = await sealedRows(8);
      expect(await auditor.verify()).toMatchObject({ rows: 8, waiting: 0, findings: [] });
      const inserted = randomUUID();
      await tamper(
        app.database,
        `UPDATE audit_events SET address = '203.0.113.9' WHERE id = '${changed}'`,
        `UPDATE audit_events SET details = details || '{"note": 1}' WHERE id = '${details}'`,
        `DELETE FROM audit_events WHERE id = '${deleted}'`,
        `UPDATE audit_events SET time = time + interval '1 millisecond' WHERE id = '${moved}'`,
        `INSERT INTO audit_events SELECT '${inserted}', time, event, actor_door, actor_id, subject, request_id, address,
           count, details, epoch, xid, recorded_at FROM audit_events WHERE id = '${changed}'`,
      );
      const expected = [
        `changed ${changed}`,
        `changed ${details}`,
        `inserted ${inserted}`,
        `missing ${deleted}`,
        `reordered ${moved}`,
      ];
      expect(await auditor.findings()).toEqual(expected.sort());
      const { code, stdout, stderr } = await auditor.cli.run('audit', 'verify');
      expect(code).toBe(1);
      expect(stdout).toContain(deleted);
      expect(stderr).toContain('Tampered with: 5');
    },
    SCENARIO_MS,
  );

  it(
    'names backdated rows, also when they were sealed afterwards',
    async () => {
      const [backdated, forged, ahead] = [randomUUID(), randomUUID(), randomUUID()];
      await sealedRows(1);
      await tamper(
        app.database,
        insertion(backdated, `now() - interval '1 hour'`),
        insertion(forged, `now() - interval '1 hour'`, { recorded_at: `now() - interval '1 hour'` }),
        insertion(ahead, 'now()', { xid: `'99999999999'` }),
      );
      await seal(app);
      const expected = [`inserted ${backdated}`, `inserted ${forged}`, `inserted ${ahead}`];
      expect(await auditor.findings()).toEqual(expected.sort());
    },
    SCENARIO_MS,
  );

  it(
    'names seals that were changed or deleted, and seals under another key',
    async () => {
      for (let seals = 0; seals < 4; seals += 1) await sealedRows(1);
      expect(await auditor.verify()).toMatchObject({ seals: 5, findings: [] });
      const stranger = new Auditor(app.database, { AUDIT_SEAL_KEY: 'another-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u' });
      expect(await stranger.findings()).toEqual([1, 2, 3, 4, 5].map((number) => `other_key ${number}`));
      const { code, stderr } = await stranger.cli.run('audit', 'verify');
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringMatching(
          /^5 seals were made with a key that was not given: nothing is proven about them\./,
        ),
      });
      expect(stderr).not.toContain('Tampered');
      const keyless = await new Auditor(app.database, {}).cli.fails('audit', 'verify');
      expect(keyless).toContain('AUDIT_SEAL_KEY (or SECRET_KEY, if the service has none) is required');
      const file = stranger.cli.path('old-keys');
      writeFileSync(file, `${SECRET_KEY}\n`);
      expect(await stranger.findings('--old-keys', file)).toEqual([]);
      stranger.cli.remove();
      await tamper(
        app.database,
        `UPDATE audit_seals SET content = replace(content, '"rows":1', '"rows":0') WHERE number = 2`,
        'DELETE FROM audit_seals WHERE number = 4',
        `UPDATE audit_seal_entries SET entries = '\\x00' || entries WHERE number = 5`,
      );
      const kinds = (await auditor.findings()).filter((finding) => finding.startsWith('seal'));
      expect(kinds).toEqual(['seal_changed 2', 'seal_changed 5', 'seal_missing 4']);
      const mixed = await new Auditor(app.database, {
        AUDIT_SEAL_KEY: 'another-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u',
      }).cli.run('audit', 'verify');
      expect(mixed.stderr).toBe('Tampered with: 1. Seals under a key that was not given: 4.\n');
    },
    SCENARIO_MS,
  );

  it(
    'detects by a checkpoint that every row was sealed again with the key',
    async () => {
      const [deleted] = await sealedRows(3);
      const checkpoint = await auditor.checkpoint();
      await sealedRows(1);
      expect(await auditor.findings('--checkpoint', checkpoint)).toEqual([]);
      await tamper(
        app.database,
        `DELETE FROM audit_events WHERE id = '${deleted}'`,
        'DELETE FROM audit_seals; DELETE FROM audit_seal_entries',
      );
      await seal(app);
      await sealedRows(1);
      expect(app.log.lines.filter(({ message }) => message === 'audit_seals_missing')).toMatchObject([
        { level: 'error' },
      ]);
      expect(await auditor.findings()).toEqual([]);
      expect(await auditor.findings('--checkpoint', checkpoint)).toEqual(['checkpoint 2']);
      expect((await auditor.cli.run('audit', 'verify', '--checkpoint', 'x')).code).toBe(2);
    },
    SCENARIO_MS,
  );

  it(
    'distinguishes a month that retention dropped from one that was dropped by hand',
    async () => {
      for (const months of [30, 20]) await oldMonth(app.database, months);
      const [byHand, byRetention] = await app.database.query<{ month: string }>(
        `SELECT to_char(time AT TIME ZONE 'UTC', 'YYYY-MM') AS month FROM audit_events ORDER BY time DESC`,
      );
      await seal(app);
      await app.nest.get(AuditJob).maintainAuditLog();
      const report = await auditor.verify();
      expect(report).toMatchObject({ rows: 2, dropped_rows: 1, dropped_months: [byRetention!.month] });
      expect(report.findings.filter(({ kind }) => kind !== 'inserted')).toEqual([]);
      await tamper(app.database, `DROP TABLE ${partitionOf(new Date(`${byHand!.month}-01`))}`);
      expect((await auditor.verify()).findings).toMatchObject([
        { kind: 'month_missing', what: expect.stringContaining(byHand!.month) as string },
      ]);
    },
    SCENARIO_MS,
  );

  it(
    'works after a column was added, and detects a change of it',
    async () => {
      const [changed] = await sealedRows(2);
      await app.database.query('ALTER TABLE audit_events ADD COLUMN caller_request_id text');
      await sealedRows(1);
      expect(await auditor.verify()).toMatchObject({ rows: 3, findings: [] });
      await tamper(app.database, `UPDATE audit_events SET caller_request_id = 'x' WHERE id = '${changed}'`);
      expect(await auditor.findings()).toEqual([`changed ${changed}`]);
    },
    SCENARIO_MS,
  );
});
