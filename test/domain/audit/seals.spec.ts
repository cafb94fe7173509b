import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { APP_KEYS } from '../../../src/domain/app-credentials/app-credentials.service.js';
import { encodeEntries } from '../../../src/domain/audit/seals/seal.js';
import { COUNTED_EVENTS, CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import { AUDIT_EVENT_NAMES } from '../../../src/foundation/common/security-events.js';
import { NODE_KEYS } from '../../../src/domain/nodes/nodes.service.js';
import { OPERATOR_KEYS, type OperatorKeys } from '../../../src/domain/operators/operators.service.js';
import { FactorOwner } from '../second-factors/owner.js';
import { openTransaction } from '../../support/row-lock.js';
import { OwnPostgres } from '../../support/own-postgres.js';
import { TestApp } from '../../support/test-app.js';
import type { TestDatabase } from '../../support/test-database.js';
import { Auditor, insertion, seal, tamper, whileSealing } from './auditor.js';
import { AuditJob } from '../../../src/domain/maintenance/jobs.js';
import { MASTER_KEY, UNLEASED } from '../../support/settings.js';
import { useAppPerTest } from '../../support/use-app.js';
import { oldMonth, partitionOf } from './months.js';

jest.setTimeout(240_000);

const ROW = `INSERT INTO audit_events (id, time, event, actor_door, count, details)
  SELECT gen_random_uuid(), now(), 'user.registered', 'open', 1, '{}'`;

/** A row beside another one, in the same sealed span. */
const copy = (id: string, original: string | undefined): string =>
  `INSERT INTO audit_events SELECT '${id}', time, event, actor_door, actor_id, subject, request_id, address,
     count, details, epoch, xid, recorded_at FROM audit_events WHERE id = '${original}'`;

const app = useAppPerTest({ variables: UNLEASED });
let auditor: Auditor;

beforeEach(() => {
  auditor = new Auditor(app.database);
});

describe('the seals of the audit log', () => {
  it('cover a row whose transaction stays open for long once, and are not held up by it', async () => {
    const slow = await openTransaction(app.database, ROW);
    const another = { ...app.database, url: process.env.TEST_DATABASE_URL! };
    const elsewhere = await openTransaction(another, 'SELECT pg_current_xact_id()');
    await app.user();
    expect(await seal(app)).toBe(1);
    await app.user();
    expect(await seal(app)).toBe(1);
    await slow.query('COMMIT');
    expect(await seal(app)).toBe(1);
    expect(await seal(app)).toBe(0);
    await elsewhere.end();
    await app.user();
    expect(await seal(app)).toBe(1);
    expect(await auditor.verify()).toMatchObject({ rows: 4, waiting: 0, findings: [] });
    await slow.end();
  });

  it('have no findings about what was counted, or collected, and recorded after it had happened', async () => {
    const owner = await FactorOwner.withTotp(app);
    const operator = await app.operator(['read']);
    const [node, service, restricted] = [await app.node(), await app.service(), await app.node()];
    await app.admin.patch(`/nodes/${restricted.nodeId}`, { targets: ['recipes'] }).expect(200);
    app.clock.advance({ minutes: -60 });
    await app.login(owner.user.email, 'not the password').expect(401);
    const { challenge } = await owner.isChallenged();
    await owner.answers(challenge, 'totp', { code: 'wrong' }).expect(401);
    await app.asAdmin('not a key').get('/nodes').expect(401);
    await operator.as().post('/nodes', {}).expect(403);
    await app.validateNode(node.header).expect(200);
    await app.validateApp(service.headers).expect(200);
    await app.validateNode(restricted.header).expect(401);
    await app.validateApp(service.headers, { target: 'elsewhere' }).expect(401);
    await app.nest.get(CountedRefusals).flush();
    app.clock.advance({ minutes: 60 });
    await app.nest.get(CountedRefusals).moveClosedWindows(app.clock.now());
    for (const keys of [OPERATOR_KEYS, NODE_KEYS, APP_KEYS])
      await app.nest.get<OperatorKeys>(keys, { strict: false }).flushLastUsed();
    const late = await app.database.query<{ event: string }>(
      `SELECT DISTINCT event FROM audit_events WHERE time < recorded_at - interval '30 minutes'`,
    );
    const firstUses = AUDIT_EVENT_NAMES.filter((name) => name.endsWith('.first_used'));
    // The others need a session, which has no verdict an hour before its login.
    const ofSessions = [
      'admin.console.refused',
      'user.access.refused',
      'token.exchange.refused',
      'token.exchange.first_used',
    ];
    const expected = [...COUNTED_EVENTS, ...firstUses].filter((event) => !ofSessions.includes(event));
    expect(late.map(({ event }) => event).sort()).toEqual(expected.sort());
    await seal(app);
    expect(await auditor.verify()).toMatchObject({ waiting: 0, findings: [] });
  });

  it('catch up in bounded steps, from several replicas at once, while rows are added', async () => {
    const replica = await TestApp.start({ variables: UNLEASED, database: app.database });
    await app.database.query(`${ROW} FROM generate_series(1, 3500)`);
    const write = async (): Promise<void> => {
      for (let written = 0; written < 100; written += 1) await app.database.query(ROW);
    };
    const [first, second] = [seal(app), seal(replica)];
    await Promise.all([first, second, write(), write(), seal(app), seal(replica)]);
    await seal(app);
    const report = await auditor.verify();
    expect(report).toMatchObject({ rows: 3_700, waiting: 0, findings: [] });
    expect(report.seals).toBeGreaterThan(4);
    await replica.stop();
  });

  it('go on after a restore into a server that counts transactions from the start', async () => {
    await app.database.query(
      'DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
    );
    const alice = await app.user();
    await seal(app);
    await app.user();
    const checkpoint = await auditor.checkpoint();
    const server = await OwnPostgres.start();
    await (await TestApp.start({ variables: UNLEASED, database: server.database })).stop();
    await copyLog(app.database, server.database);
    const restored = await TestApp.start({ variables: UNLEASED, database: server.database });
    await restored.user();
    await seal(restored);
    const there = new Auditor(server.database);
    expect(await there.verify('--checkpoint', checkpoint)).toMatchObject({ rows: 3, waiting: 0, findings: [] });
    const epochs = await server.database.query('SELECT DISTINCT epoch FROM audit_events ORDER BY epoch');
    expect(epochs).toEqual([{ epoch: 0 }, { epoch: 1 }]);
    expect(await server.database.query('SELECT id FROM audit_events WHERE subject = $1', [alice.id])).toHaveLength(1);
    await restored.stop();
    await server.remove();
  });

  it('cover the rows that are recorded after the clock of PostgreSQL was set back', async () => {
    await app.user();
    await whileSealing('1 day', () => seal(app));
    await app.user();
    await seal(app);
    expect(await auditor.verify()).toMatchObject({ rows: 2, waiting: 0, findings: [] });
  });

  it('that cannot be made are told of once, and made later', async () => {
    await app.user();
    await app.database.query('ALTER TABLE audit_seals RENAME TO lost');
    for (let runs = 0; runs < 3; runs += 1) expect(await seal(app)).toBe(0);
    await app.database.query('ALTER TABLE lost RENAME TO audit_seals');
    expect(await seal(app)).toBe(1);
    const lines = app.log.lines.map(({ message }) => message).filter((message) => message.startsWith('audit_seal'));
    expect(lines).toEqual(['audit_seal_failed', 'audit_seals_again']);
  });
});

/** What a restore from a dump brings back, into tables that are there and empty. */
async function copyLog(from: TestDatabase, to: TestDatabase): Promise<void> {
  for (const table of ['audit_events', 'audit_seals', 'audit_seal_entries']) {
    const [rows] = await from.query<{ all: object[] }>(`SELECT json_agg(${table}) AS all FROM ${table}`);
    if (table === 'audit_seals')
      await to.query(
        'TRUNCATE audit_seal_entries; ALTER TABLE audit_seals DISABLE TRIGGER ALL; DELETE FROM audit_seals',
      );
    const columns = `SELECT * FROM json_populate_recordset(NULL::${table}, $1)`;
    await to.query(`INSERT INTO ${table} ${columns}`, [JSON.stringify(rows!.all)]);
  }
}

describe('platform-auth audit verify', () => {
  /** The ids of new, sealed rows of the audit log. */
  const sealedRows = async (count: number): Promise<string[]> => {
    for (let made = 0; made < count; made += 1) await app.user();
    await seal(app);
    const rows = await app.database.query<{ id: string }>('SELECT id FROM audit_events ORDER BY time, id');
    return rows.map(({ id }) => id);
  };

  it('names the rows that a superuser without triggers changed, deleted, inserted and moved', async () => {
    const [changed, deleted, moved, , , details] = await sealedRows(8);
    expect(await auditor.verify()).toMatchObject({ rows: 8, waiting: 0, findings: [] });
    const inserted = randomUUID();
    await tamper(
      app.database,
      `UPDATE audit_events SET address = '203.0.113.9' WHERE id = '${changed}'`,
      `UPDATE audit_events SET details = details || '{"note": 1}' WHERE id = '${details}'`,
      `DELETE FROM audit_events WHERE id = '${deleted}'`,
      `UPDATE audit_events SET time = time + interval '1 millisecond' WHERE id = '${moved}'`,
      copy(inserted, changed),
    );
    const altered = [`changed ${changed}`, `changed ${details}`].sort();
    const others = [`inserted ${inserted}`, `missing ${deleted}`, `reordered ${moved}`];
    expect(await auditor.findings()).toEqual([...altered, ...others]);
    const { code, stdout, stderr } = await auditor.cli.run('audit', 'verify');
    expect(code).toBe(1);
    expect(stdout).toContain(deleted);
    expect(stderr).toContain('Tampered with: 5');
  });

  it('names backdated rows, also when they were sealed afterwards', async () => {
    const [backdated, forged, ahead] = [randomUUID(), randomUUID(), randomUUID()];
    await sealedRows(1);
    await tamper(
      app.database,
      insertion(backdated, `now() - interval '1 hour'`),
      insertion(forged, `now() - interval '1 hour'`, { recorded_at: `now() - interval '1 hour'` }),
      insertion(ahead, 'now()', { xid: `'99999999999'` }),
    );
    await seal(app);
    expect(await auditor.findings()).toEqual([backdated, forged, ahead].map((id) => `inserted ${id}`).sort());
  });

  it('fails only for new findings once the others are acknowledged with the key', async () => {
    const [backdated, forged] = [randomUUID(), randomUUID()];
    await sealedRows(2);
    await tamper(app.database, insertion(backdated, `now() - interval '1 hour'`));
    await seal(app);
    const [finding] = (await auditor.verify()).findings;
    const acknowledge = ['audit', 'acknowledge', finding!.name, '--reason', 'ticket 481', '--as', 'alice'];
    const known = { ...finding, acknowledged_by: 'alice', reason: 'ticket 481' };
    expect(await auditor.cli.ok(...acknowledge)).toBe(`Acknowledged: ${finding!.name}.\n`);
    expect(await auditor.verify()).toMatchObject({ findings: [], acknowledged: [known], waiting: 1 });
    await seal(app);
    expect(await auditor.verify()).toMatchObject({ findings: [], acknowledged: [known], waiting: 0 });
    expect(await auditor.cli.ok('audit', 'verify')).toContain('ticket 481');
    expect(await auditor.cli.ok(...acknowledge)).toBe('Acknowledged: nothing new.\n');
    const rows = await app.database.query(
      `SELECT details ->> 'reason' AS reason FROM audit_events WHERE subject = $1`,
      [finding!.name],
    );
    expect(rows).toEqual([{ reason: 'ticket 481' }]);

    await tamper(app.database, insertion(forged, `now() - interval '1 hour'`));
    await seal(app);
    const [second] = (await auditor.verify()).findings;
    expect(second).toMatchObject({ kind: 'inserted', row: forged });
    // An attacker with the database and without the key copies the row of the other acknowledgement.
    await app.database.query(
      `INSERT INTO audit_events (id, time, event, actor_door, count, subject, details)
       SELECT gen_random_uuid(), now(), event, actor_door, count, $2, details FROM audit_events WHERE subject = $1`,
      [finding!.name, second!.name],
    );
    await seal(app);
    expect(await auditor.findings()).toEqual([`inserted ${forged}`]);
    expect(await auditor.cli.fails('audit', 'acknowledge', 'inserted-0', '--reason', 'x')).toContain('no finding');
  });

  it('fails again when what was acknowledged is changed once more, or its acknowledgement is', async () => {
    const [changed] = await sealedRows(2);
    const change = (address: string) =>
      tamper(app.database, `UPDATE audit_events SET address = '${address}' WHERE id = '${changed}'`);
    await change('203.0.113.9');
    const [finding] = (await auditor.verify()).findings;
    await auditor.cli.ok('audit', 'acknowledge', finding!.name, '--reason', 'a test of ours');
    await seal(app);
    expect(await auditor.findings()).toEqual([]);
    await change('203.0.113.10');
    expect(await auditor.findings()).toEqual([`changed ${changed}`]);
    await change('203.0.113.9');
    expect(await auditor.findings()).toEqual([]);
    const [row] = await app.database.query<{ id: string }>('SELECT id FROM audit_events WHERE subject = $1', [
      finding!.name,
    ]);
    await tamper(
      app.database,
      `UPDATE audit_events SET details = details || '{"reason": "another"}' WHERE id = '${row!.id}'`,
    );
    expect(await auditor.findings()).toEqual([`changed ${changed}`, `changed ${row!.id}`].sort());
  });

  it('names seals that were changed or deleted, and seals under another key', async () => {
    for (let seals = 0; seals < 4; seals += 1) await sealedRows(1);
    expect(await auditor.verify()).toMatchObject({ seals: 5, findings: [] });
    const stranger = new Auditor(app.database, { AUDIT_SEAL_KEY: 'another-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u' });
    expect(await stranger.findings()).toEqual([1, 2, 3, 4, 5].map((number) => `other_key ${number}`));
    const { code, stderr } = await stranger.cli.run('audit', 'verify');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^5 seals were made with a key that was not given: nothing is proven about them\./);
    expect(stderr).not.toContain('Tampered');
    const keyless = await new Auditor(app.database, {}).cli.fails('audit', 'verify');
    expect(keyless).toContain('AUDIT_SEAL_KEY (or MASTER_KEY, if the service has none) is required');
    const file = stranger.cli.path('old-keys');
    writeFileSync(file, `${MASTER_KEY}\n`);
    expect(await stranger.findings('--old-keys', file)).toEqual([]);
    await tamper(
      app.database,
      `UPDATE audit_seals SET content = replace(content, '"rows":1', '"rows":0') WHERE number = 2`,
      'DELETE FROM audit_seals WHERE number = 4',
      `UPDATE audit_seal_entries SET entries = '\\x00' || entries WHERE number = 5`,
    );
    const kinds = (await auditor.findings()).filter((finding) => finding.startsWith('seal'));
    expect(kinds).toEqual(['seal_changed 2', 'seal_changed 5', 'seal_missing 4']);
    const mixed = await stranger.cli.run('audit', 'verify');
    expect(mixed.stderr).toBe('Tampered with: 1. Seals under a key that was not given: 4.\n');
  });

  it('detects by a checkpoint that every row was sealed again with the key', async () => {
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
    const missing = app.log.lines.filter(({ message }) => message === 'audit_seals_missing');
    expect(missing).toMatchObject([{ level: 'error' }]);
    expect(await auditor.findings()).toEqual([]);
    expect(await auditor.findings('--checkpoint', checkpoint)).toEqual(['checkpoint 2']);
    expect((await auditor.cli.run('audit', 'verify', '--checkpoint', 'x')).code).toBe(2);
  });

  it('distinguishes a month that retention dropped from one that was dropped by hand', async () => {
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
  });

  it('believes no list of rows that a seal does not cover', async () => {
    await oldMonth(app.database, 30);
    const known = (await sealedRows(1)).at(-1);
    // The seal that records the drop lists no rows.
    await app.nest.get(AuditJob).maintainAuditLog();
    const seals = await app.database.query<{ last: number }>('SELECT max(number)::integer AS last FROM audit_seals');
    const empty = seals[0]!.last;
    const addListed = async (number: number): Promise<string> => {
      const id = randomUUID();
      await tamper(app.database, copy(id, known));
      const rows = await app.database.query<{ micros: string }>(
        `SELECT (extract(epoch FROM time) * 1000000)::bigint AS micros FROM audit_events WHERE id = '${id}'`,
      );
      const list = encodeEntries([{ id, micros: BigInt(rows[0]!.micros), mac: Buffer.alloc(32) }]);
      const insert = 'INSERT INTO audit_seal_entries (number, latest, entries) VALUES ($1, now(), $2)';
      await app.database.query(insert, [number, list]);
      return id;
    };
    const unsealed = await addListed(empty + 1_000);
    await addListed(empty);
    expect(await auditor.findings()).toEqual(expect.arrayContaining([`inserted ${unsealed}`, `seal_changed ${empty}`]));
  });

  it('works after a column was added, and detects a change of it', async () => {
    const [changed] = await sealedRows(2);
    await app.database.query('ALTER TABLE audit_events ADD COLUMN caller_request_id text');
    await sealedRows(1);
    expect(await auditor.verify()).toMatchObject({ rows: 3, findings: [] });
    await tamper(app.database, `UPDATE audit_events SET caller_request_id = 'x' WHERE id = '${changed}'`);
    expect(await auditor.findings()).toEqual([`changed ${changed}`]);
  });
});
