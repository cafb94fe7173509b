import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { Client } from 'pg';
import { SealFold } from '../../../src/domain/audit/seals/seal-fold.js';
import { BEGIN_VERIFICATION, SealVerifier } from '../../../src/domain/audit/seals/seal-verifier.js';
import { encodeEntries, SealKey, type Query, type SealContent } from '../../../src/domain/audit/seals/seal.js';
import { AuditJob } from '../../../src/domain/maintenance/jobs.js';
import { MASTER_KEY, UNLEASED } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { Subscriber } from '../events/subscriber.js';
import { Auditor, insertion, seal, tamper, whileSealing } from './auditor.js';
import { oldMonth } from './months.js';

jest.setTimeout(240_000);

/** Beyond the retention of a year. */
const AGE_DAYS = 400;
const SIZE = 4;
const KEY = new SealKey(MASTER_KEY);

let app: TestApp;
let auditor: Auditor;

beforeEach(async () => {
  app = new TestApp({ variables: UNLEASED });
  // The first seal is made at the start.
  await whileSealing(`-${AGE_DAYS} days`, () => app.start());
  auditor = new Auditor(app.database);
});

afterEach(() => app.stop());

/** Makes seals without rows, eleven minutes apart, up to a number. */
async function sealUntil(last: number, ageDays = AGE_DAYS): Promise<void> {
  for (let number = (await numbers()).at(-1)! + 1; number <= last; number += 1)
    await whileSealing(`-${ageDays} days +${11 * number} minutes`, () => seal(app));
}

/** Repeats the last seal, which has no rows, in one statement: the service would take a minute for a thousand. */
async function repeatSeal(count: number): Promise<void> {
  const rows = await app.database.query<{ content: string; mac: Buffer }>(
    'SELECT content, mac FROM audit_seals ORDER BY number DESC LIMIT 1',
  );
  const last = JSON.parse(rows[0]!.content) as SealContent;
  let previous = rows[0]!.mac.toString('hex');
  const made = Array.from({ length: count }, (_, index) => {
    const number = last.number + index + 1;
    const content = JSON.stringify({ ...last, number, previous });
    previous = KEY.computeSealMac(content).toString('hex');
    return { number, content, mac: previous };
  });
  await app.database.query(
    `INSERT INTO audit_seals SELECT number, content, decode(mac, 'hex')
     FROM jsonb_to_recordset($1) AS made (number bigint, content text, mac text)`,
    [JSON.stringify(made)],
  );
  await app.database.query('UPDATE event_position SET seal = $1', [made.at(-1)!.number]);
}

async function numbers(): Promise<number[]> {
  const rows = await app.database.query<{ number: string }>('SELECT number FROM audit_seals ORDER BY number');
  return rows.map(({ number }) => Number(number));
}

async function fold(on = app, size = SIZE): Promise<number> {
  return on.nest.get(SealFold).foldSeals(app.clock.now(), size);
}

/** Appends a seal as an attacker does who lacks the key, or has it. @returns its number */
async function forge(content: Partial<SealContent>, key = new SealKey('x'.repeat(32))): Promise<number> {
  const rows = await app.database.query<{ content: string; mac: Buffer }>(
    'SELECT content, mac FROM audit_seals ORDER BY number DESC LIMIT 1',
  );
  const [last, previous] = [JSON.parse(rows[0]!.content) as SealContent, rows[0]!.mac.toString('hex')];
  const number = last.number + 1;
  const text = JSON.stringify({ ...last, number, previous, ...content });
  const mac = key.computeSealMac(text);
  await app.database.query('INSERT INTO audit_seals (number, content, mac) VALUES ($1, $2, $3)', [number, text, mac]);
  return number;
}

async function macOf(number: number): Promise<string> {
  const rows = await app.database.query<{ mac: Buffer }>('SELECT mac FROM audit_seals WHERE number = $1', [number]);
  return rows[0]!.mac.toString('hex');
}

const FOLD_BY_HAND = 'SELECT audit_seals_fold()';
const REFUSED = { code: '55000' };

describe('a fold of the oldest seals', () => {
  it('runs with the job that drops the months of their rows, and audit verify begins after it', async () => {
    await oldMonth(app.database, AGE_DAYS / 25);
    await sealUntil(3);
    await repeatSeal(997);
    await sealUntil(1_002);
    const [early, checkpoint] = [1, 1_000].map(async (number) => {
      const mac = await macOf(number);
      return `platform-auth-audit-checkpoint/1 ${number} 2025-01-01T00:00:00.000Z ${mac}`;
    });
    const lines = [await early!, await checkpoint!];
    await app.user();
    await seal(app);
    const head = await auditor.checkpoint();
    await app.nest.get(AuditJob).maintainAuditLog();
    expect(app.log.lines.map(({ message, count }) => [message, count])).toContainEqual(['audit_seals_folded', 1_000]);
    // The seals of the drop and of the fold follow that of the user.
    expect(await numbers()).toEqual([1_001, 1_002, 1_003, 1_004, 1_005]);
    expect(await auditor.verify('--checkpoint', head)).toMatchObject({
      ...{ seals: 1_005, folded: 1_000, rows: 1, waiting: 0, findings: [] },
    });
    expect(await auditor.findings('--checkpoint', lines[1]!)).toEqual([]);
    expect((await auditor.verify('--checkpoint', lines[0]!)).findings).toMatchObject([
      { kind: 'checkpoint', seal: 1, what: expect.stringContaining('Give one of seal 1000 or later') as string },
    ]);
    const rewritten = lines[1]!.replace(/.{64}$/, '0'.repeat(64));
    expect(await auditor.findings('--checkpoint', rewritten)).toEqual(['checkpoint 1000']);
    expect(await auditor.cli.ok('audit', 'verify')).toContain('Folded after their retention: seals 1 to 1000.');
  });

  it('waits until a batch is full, its retention has ended, its rows are dropped and its events are purged', async () => {
    await sealUntil(SIZE);
    // The copy of events stands at the last one.
    expect(await fold()).toBe(0);
    await sealUntil(SIZE + 1, 300);
    await app.database.query(
      `INSERT INTO events VALUES (2, 1, gen_random_uuid(), 'user.deleted', now(), gen_random_uuid(), '{}')`,
    );
    expect(await fold()).toBe(0);
    await app.database.query('DELETE FROM events');
    expect(await whileSealing('-300 days +2 hours', () => fold())).toBe(SIZE);

    await sealUntil(2 * SIZE + 3, 299);
    expect(await fold()).toBe(0);
    expect(await auditor.verify()).toMatchObject({ folded: SIZE, findings: [] });
    app.clock.advance({ days: 100 });
    expect(await fold()).toBe(SIZE);
    expect(await auditor.verify()).toMatchObject({ folded: 2 * SIZE, findings: [] });
  });

  it('keeps the seals of a month until it is dropped, however old they are', async () => {
    await oldMonth(app.database, 10);
    await sealUntil(SIZE + 2);
    expect(await fold()).toBe(0);
    app.clock.advance({ days: 200 });
    expect(await fold()).toBe(0);
    expect(await auditor.verify()).toMatchObject({ rows: 1, folded: 0 });
  });

  it('is made once by replicas that fold at the same time', async () => {
    await sealUntil(5 * SIZE + 2);
    const replica = await app.startReplica();
    const folded = await Promise.all([fold(), fold(replica), fold(), fold(replica)]);
    expect(folded.reduce((total, each) => total + each)).toBe(5 * SIZE);
    expect(await auditor.verify()).toMatchObject({ folded: 5 * SIZE, findings: [] });
    await seal(replica);
    await app.user();
    await seal(app);
    expect(await auditor.verify()).toMatchObject({ rows: 1, waiting: 0, findings: [] });
  });

  it('disturbs no verification that runs', async () => {
    await sealUntil(2 * SIZE + 2);
    const client = new Client({ connectionString: app.database.url });
    await client.connect();
    await client.query(BEGIN_VERIFICATION);
    let folded = 0;
    const query: Query = async <Row extends object>(text: string, values: unknown[] = []) => {
      const { rows } = await client.query<Row>(text, values);
      if (text.includes('"folded"')) folded = await fold();
      return rows;
    };
    const report = await new SealVerifier(query, new Map([[KEY.id, KEY]])).verifyLog();
    await client.end();
    expect(folded).toBe(2 * SIZE);
    expect(report).toMatchObject({ folded: 0, findings: [] });
    expect(await auditor.verify()).toMatchObject({ folded, findings: [] });
  });

  it('refuses seals about which audit verify has a finding, and logs it once', async () => {
    await sealUntil(SIZE + 2);
    await tamper(app.database, `UPDATE audit_seals SET content = content || ' ' WHERE number = 2`);
    for (let runs = 0; runs < 2; runs += 1) expect(await fold()).toBe(0);
    const [finding] = (await auditor.verify()).findings;
    expect(finding).toMatchObject({ kind: 'seal_changed', seal: 2 });
    const lines = app.log.lines.filter(({ message }) => message === 'audit_fold_refused');
    expect(lines).toMatchObject([{ level: 'warn', reason: finding!.name }]);
    await tamper(app.database, `UPDATE audit_seals SET content = trim(content) WHERE number = 2`);
    expect(await fold()).toBe(SIZE);
    expect(await auditor.findings()).toEqual([]);
  });

  it('refuses to hide seals that were deleted, and a list of rows that was', async () => {
    await oldMonth(app.database, 10);
    await sealUntil(2 * SIZE + 2);
    await tamper(app.database, 'DELETE FROM audit_seal_entries');
    expect(await fold()).toBe(0);
    await tamper(app.database, 'DELETE FROM audit_seals WHERE number <= 2');
    expect(await fold()).toBe(0);
    expect((await auditor.findings()).filter((finding) => finding.startsWith('seal'))).toEqual(['seal_missing 1']);
  });

  it('goes on after a change of the key, over seals whose key the service does not have', async () => {
    await sealUntil(SIZE + 3);
    expect(await whileSealing(`-${AGE_DAYS} days +4 hours`, () => fold())).toBe(SIZE);
    const variables = { AUDIT_SEAL_KEY: 'another-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u' };
    const successor = app.newReplica({ variables });
    await whileSealing(`-${AGE_DAYS} days +5 hours`, () => successor.start());
    await sealBy(successor, 3);
    expect(await fold(successor)).toBe(SIZE);
    const later = new Auditor(app.database, variables);
    const file = later.cli.path('old-keys');
    writeFileSync(file, `${MASTER_KEY}\n`);
    expect(await later.verify('--old-keys', file)).toMatchObject({ folded: 2 * SIZE, findings: [] });
    expect(await later.findings()).toEqual([]);
    // Without the key of the newest fold, nothing is proven, and nothing is called missing.
    expect(new Set((await auditor.verify()).findings.map(({ kind }) => kind))).toEqual(new Set(['other_key']));
  });

  it('leaves a service that reads events at its position, and resets other cursors of folded seals', async () => {
    await sealUntil(SIZE);
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const { cursor } = await subscriber.read({ after: 'nonsense' });
    const mark = (await macOf(SIZE - 1)).slice(0, 32);
    const other = cursor!.replace(/^\d+/, String(SIZE - 1)).replace(/\.[0-9a-f]{32}\./, `.${mark}.`);
    expect(await subscriber.read({ after: other })).toMatchObject({ reset: false });
    expect(await subscriber.read({ after: cursor })).toMatchObject({ reset: false });
    await seal(app);
    await sealUntil(SIZE + 2);
    expect(await fold()).toBe(SIZE);
    expect(await subscriber.read({ after: cursor })).toMatchObject({ reset: false });
    expect(await subscriber.read()).toMatchObject({ reset: false });
    expect(await subscriber.read({ after: other })).toMatchObject({ reset: true });
    const user = await app.user();
    await app.admin.delete(`/users/${user.id}`).expect(204);
    await seal(app);
    expect((await subscriber.read({ after: cursor })).events).toMatchObject([{ subject: { id: user.id } }]);
  });
});

async function sealBy(replica: TestApp, count: number): Promise<void> {
  for (let made = 1; made <= count; made += 1)
    await whileSealing(`-${AGE_DAYS} days +${10 + made} hours`, () => seal(replica));
}

describe('audit_seals_fold', () => {
  it('deletes nothing unless the last seal folds seals whose retention has ended', async () => {
    await sealUntil(SIZE + 2);
    await expect(app.database.query(FOLD_BY_HAND)).rejects.toMatchObject(REFUSED);
    const mac = await macOf(SIZE);
    const itself = await forge({ folded: { through: SIZE + 3, mac } });
    await expect(app.database.query(FOLD_BY_HAND)).rejects.toMatchObject(REFUSED);
    await forge({ folded: { through: itself, mac }, at: new Date().toISOString() });
    await app.database.query('UPDATE audit_settings SET retention_floor_days = 500');
    await expect(app.database.query(FOLD_BY_HAND)).rejects.toMatchObject(REFUSED);
    await app.database.query('UPDATE audit_settings SET retention_floor_days = 1');
    await app.database.query(`INSERT INTO audit_seal_entries VALUES (2, '-infinity', '')`);
    await expect(app.database.query(FOLD_BY_HAND)).rejects.toMatchObject(REFUSED);
    await app.database.query('DELETE FROM audit_seal_entries');
    expect(await numbers()).toHaveLength(SIZE + 4);
    // Nothing but the lists, the age and the order of the seals held it back.
    await app.database.query(FOLD_BY_HAND);
    expect(await numbers()).toEqual([itself + 1]);
  });

  it('hides nothing from audit verify when an attacker without the key uses it', async () => {
    await sealUntil(SIZE + 2);
    const forged = await forge({ folded: { through: SIZE, mac: await macOf(SIZE) } });
    await app.database.query(FOLD_BY_HAND);
    expect(await numbers()).toEqual([SIZE + 1, SIZE + 2, forged]);
    expect(await auditor.findings()).toEqual([`seal_changed ${forged}`, 'seal_missing 1']);
    await sealUntil(forged + SIZE + 2);
    expect(await fold()).toBe(0);
    expect(await auditor.findings()).toEqual([`seal_changed ${forged}`, 'seal_missing 1']);
  });

  it('hides nothing when the attacker names a key of its own', async () => {
    await sealUntil(SIZE + 2);
    expect(await fold()).toBe(SIZE);
    await app.user();
    await seal(app);
    const last = (await numbers()).at(-1)!;
    const stranger = new SealKey('y'.repeat(32));
    await forge({ key: stranger.id, folded: { through: last - 1, mac: await macOf(last - 1) } }, stranger);
    await tamper(app.database, `DELETE FROM audit_seals WHERE number < ${last - 1}`);
    expect(await auditor.findings()).toEqual([`other_key ${last + 1}`, `seal_missing ${SIZE + 1}`]);
    await tamper(app.database, `DELETE FROM audit_seals WHERE number < ${last}`);
    expect(await auditor.findings()).toEqual([`other_key ${last + 1}`, 'seal_missing 1']);
  });
});

describe('platform-auth audit verify', () => {
  it('names seals that were deleted without a fold', async () => {
    await sealUntil(2 * SIZE + 2);
    await tamper(app.database, `DELETE FROM audit_seals WHERE number <= ${SIZE}`);
    expect(await auditor.findings()).toEqual(['seal_missing 1']);
  });

  it('names seals that were deleted beyond a fold', async () => {
    await sealUntil(2 * SIZE + 1);
    expect(await fold()).toBe(2 * SIZE);
    await seal(app);
    const [next] = await numbers();
    await tamper(app.database, `DELETE FROM audit_seals WHERE number = ${next}`);
    expect(await auditor.findings()).toEqual([`seal_missing ${next}`]);
  });

  it('names the folded seals when their fold was deleted', async () => {
    await sealUntil(SIZE + 2);
    expect(await fold()).toBe(SIZE);
    await tamper(app.database, `DELETE FROM audit_seals WHERE number = ${SIZE + 3}`);
    expect(await auditor.findings()).toEqual(['seal_missing 1']);
  });

  it('names a seal that was put back below a fold to list a row that no seal lists', async () => {
    await sealUntil(SIZE + 2);
    expect(await fold()).toBe(SIZE);
    await app.user();
    await seal(app);
    const hidden = randomUUID();
    await tamper(app.database, insertion(hidden, `'2026-01-01Z'`, { xid: `'5'`, recorded_at: `'2026-01-01Z'` }));
    expect(await auditor.findings()).toEqual([`inserted ${hidden}`]);
    const micros = BigInt(Date.parse('2026-01-01Z')) * 1_000n;
    const list = encodeEntries([{ id: hidden, micros, mac: Buffer.alloc(32) }]);
    await app.database.query(`INSERT INTO audit_seals VALUES (1, '{}', '')`);
    await app.database.query('INSERT INTO audit_seal_entries VALUES (1, now(), $1)', [list]);
    expect(await auditor.findings()).toContain('seal_changed 1');
  });

  it('names the seal after a fold whose HMAC is not that of the chain', async () => {
    await sealUntil(SIZE + 2);
    await forge({ folded: { through: SIZE, mac: '0'.repeat(64) } }, KEY);
    await app.database.query(FOLD_BY_HAND);
    expect(await auditor.findings()).toEqual([`seal_changed ${SIZE + 1}`]);
  });
});
