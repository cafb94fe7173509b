import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { CHANGES_SINCE } from '../../../src/domain/revocation/revocation-feed.js';
import { migrate } from '../../../src/foundation/database/migrate.js';
import { eventually } from '../../../tools/eventually.js';
import { OwnPostgres } from '../../support/own-postgres.js';
import { openTransaction } from '../../support/row-lock.js';
import type { TestDatabase } from '../../support/test-database.js';
import { FeedReader } from './feed-reader.js';

const INSERT = `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
  SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'lamp', decode(repeat('00', 32), 'hex'), now(), now()
  FROM generate_series(1, $1) RETURNING id`;

// A server of its own: a transaction of another test is in the snapshots of its server, and makes an answer a reset.
let server: OwnPostgres;

beforeAll(async () => {
  server = await OwnPostgres.start();
  await server.database.query('ALTER SYSTEM SET autovacuum = off');
  await server.database.query('SELECT pg_reload_conf()');
  await migrate(server.database.url);
});

afterAll(() => server.remove());

describe('the change feed', () => {
  let database: TestDatabase;
  let reader: FeedReader;
  let other: Client;

  beforeAll(() => {
    ({ database } = server);
  });

  beforeEach(async () => {
    reader = await FeedReader.connect(database.url);
    other = new Client({ connectionString: database.url });
    await other.connect();
    await reader.ask();
  });

  afterEach(async () => {
    await reader.close();
    await other.end();
  });

  const nodes = async (count: number): Promise<string[]> =>
    (await database.query<{ id: string }>(INSERT, [count])).map(({ id }) => id);
  const change = (client: Client, id: string) =>
    client.query(`UPDATE nodes SET room = room || '.' WHERE id = $1`, [id]);
  const ids = async (): Promise<string[]> => (await reader.ask()).changes.map(({ id }) => id);

  const purgeAll = () => database.query('DELETE FROM credential_changes');

  it('returns each change once, with its kind, in any order of commits', async () => {
    const [first, second] = (await nodes(2)) as [string, string];
    const slow = await openTransaction(database, 'SELECT');
    await change(slow, first);
    await change(other, second);
    expect(await reader.ask()).toMatchObject({ reset: false, changes: [{ kind: 'node', id: second }] });
    expect(await ids()).toEqual([]);
    await slow.query('COMMIT');
    await slow.end();
    expect(await ids()).toEqual([first]);
    expect(await ids()).toEqual([]);
  });

  it('refuses a change of a table that it has no kind for, instead of publishing it under another', async () => {
    await database.query(`
      CREATE TABLE gateways (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text);
      CREATE TRIGGER gateways_record_update AFTER UPDATE ON gateways
        FOR EACH ROW EXECUTE FUNCTION record_credential_change();
      INSERT INTO gateways DEFAULT VALUES`);
    await expect(database.query(`UPDATE gateways SET name = 'hall'`)).rejects.toThrow('no kind for the table gateways');
    expect(await ids()).toEqual([]);
    await database.query('DROP TABLE gateways');
  });

  it('repeats no change while a transaction is open in another database', async () => {
    await database.query('CREATE DATABASE elsewhere');
    const url = Object.assign(new URL(database.url), { pathname: '/elsewhere' }).toString();
    const open = await openTransaction({ ...database, url }, 'SELECT pg_current_xact_id()');
    const [id] = (await nodes(1)) as [string];
    await reader.ask();
    await change(other, id);
    expect(await ids()).toEqual([id]);
    expect(await ids()).toEqual([]);
    await open.end();
  });

  it('returns a change that was made with session_replication_role = replica', async () => {
    const [id] = (await nodes(1)) as [string];
    await other.query('SET session_replication_role = replica');
    await change(other, id);
    expect(await ids()).toEqual([id]);
    await other.query('DELETE FROM nodes WHERE id = $1', [id]);
    expect(await ids()).toEqual([id]);
  });

  it('returns a change that was made with an empty search path', async () => {
    const [id] = (await nodes(1)) as [string];
    await other.query(`SET search_path = ''`);
    await other.query(`UPDATE public.nodes SET room = 'attic' WHERE id = $1`, [id]);
    expect(await ids()).toEqual([id]);
  });

  it('returns no change of a rolled back savepoint, and every change after it', async () => {
    const [first, second] = (await nodes(2)) as [string, string];
    await other.query('BEGIN; SAVEPOINT before_it');
    await change(other, first);
    await other.query('ROLLBACK TO SAVEPOINT before_it');
    await change(other, second);
    await other.query('COMMIT');
    expect(await ids()).toEqual([second]);
  });

  it.each([
    ['a key was truncated away', 'TRUNCATE nodes CASCADE'],
    ['one transaction changed more keys than an answer names', `UPDATE nodes SET room = 'attic'`],
    ['one transaction deleted more keys than an answer names', 'DELETE FROM nodes'],
  ])('returns a reset, once, when %s', async (_what, sql) => {
    const changed = await nodes(3_000);
    await purgeAll();
    await reader.ask();
    await other.query(sql);
    expect(await reader.ask()).toMatchObject({ reset: true, changes: [] });
    expect(await reader.ask()).toMatchObject({ reset: false, changes: [] });
    const [kept] = await database.query<{ count: number }>('SELECT count(*)::integer FROM credential_changes');
    expect(kept?.count).toBeLessThanOrEqual(1_001);
    await database.query('DELETE FROM nodes WHERE id = ANY($1)', [changed]);
  });

  it.each([1_000, 1_001])('returns all changes or a reset when %s keys were changed', async (count) => {
    await database.query(
      `INSERT INTO credential_changes (kind, credential_id)
       SELECT 'node', gen_random_uuid() FROM generate_series(1, $1)`,
      [count],
    );
    const answer = await reader.ask();
    expect([answer.reset, answer.changes.length]).toEqual(count > 1_000 ? [true, 0] : [false, 1_000]);
    await purgeAll();
  });

  it('ignores what a dump of another cluster has brought, and still marks the purges of its own', async () => {
    const ahead = `(pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000)::text::xid8`;
    await database.query(`UPDATE credential_change_purges SET purged = ${ahead}`);
    await database.query(`INSERT INTO credential_changes (xid, kind, credential_id)
      SELECT ${ahead}, 'node', gen_random_uuid() FROM generate_series(1, 3)`);
    expect(await reader.ask()).toEqual({ cursor: expect.any(String) as string, reset: false, changes: [], purged: 0n });
    const behind = await FeedReader.connect(database.url);
    await behind.follow(reader);
    const [id] = (await nodes(1)) as [string];
    await change(other, id);
    expect(await reader.ask()).toMatchObject({ reset: false, changes: [{ kind: 'node', id }] });
    await purgeAll();
    expect(await behind.ask()).toMatchObject({ reset: true });
    expect(await reader.ask()).toMatchObject({ reset: false, changes: [] });
    await behind.close();
  });

  it('returns a reset only for a cursor that may miss purged changes', async () => {
    const [id] = (await nodes(1)) as [string];
    const behind = await FeedReader.connect(database.url);
    await behind.ask();
    await change(other, id);
    await reader.ask();
    await purgeAll();
    expect(await behind.ask()).toMatchObject({ reset: true });
    expect(await reader.ask()).toMatchObject({ reset: false });
    await behind.close();
  });

  it.each([undefined, '', 'nonsense', `${'0'.repeat(64)}/1:1:`])(
    'returns a reset for the cursor %p',
    async (cursor) => {
      Object.assign(reader, { cursor });
      expect(await reader.ask()).toMatchObject({ reset: true, changes: [] });
    },
  );

  it('reads only the index of a table with 300,000 changes', async () => {
    await database.query(
      `INSERT INTO credential_changes (xid, kind, credential_id)
       SELECT n::text::xid8, 'node', gen_random_uuid() FROM generate_series(1, 300000) AS n`,
    );
    await database.query('ANALYZE credential_changes');
    await other.query('SET plan_cache_mode = force_generic_plan');
    await other.query(`PREPARE question (pg_snapshot) AS ${CHANGES_SINCE.text}`);
    const { rows } = await other.query(`EXPLAIN EXECUTE question ('400000:400000:')`);
    const plan = rows.map((row) => (row as Record<string, string>)['QUERY PLAN']).join('\n');
    expect(plan.match(/Index Scan using credential_changes_xid_idx/g)).toHaveLength(2);
    expect(plan).not.toMatch(/Scan on credential_changes /);
    await database.query('TRUNCATE credential_changes');
  });

  it('can be read by a role without privileges', async () => {
    const role = `reader_${randomUUID().replaceAll('-', '')}`;
    await database.query(`CREATE ROLE ${role} LOGIN PASSWORD 'of-a-test'`);
    await database.query(`GRANT SELECT ON credential_changes, credential_change_purges TO ${role}`);
    const url = Object.assign(new URL(database.url), { username: role, password: 'of-a-test' }).toString();
    const unprivileged = await FeedReader.connect(url);
    expect(await unprivileged.follow(reader)).toMatchObject({ reset: false });
    await unprivileged.close();
    await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
});

describe('a cursor of the change feed', () => {
  let before: FeedReader;

  beforeEach(async () => {
    before = await FeedReader.connect(server.database.url);
    await before.ask();
  });

  afterEach(() => before.close().catch(() => undefined));

  const isInvalid = async (): Promise<boolean> => {
    const after = await FeedReader.connect(server.database.url);
    const { reset } = await after.follow(before);
    await after.close();
    return reset;
  };

  it('is valid on another connection to the same server', async () => {
    expect(await isInvalid()).toBe(false);
  });

  it('is invalid after a restart', async () => {
    await server.stop('fast');
    await server.startAgain();
    expect(await isInvalid()).toBe(true);
  });

  it('is invalid after a crash of one backend, which restarts PostgreSQL under the same postmaster', async () => {
    const { rows } = await before.client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]!.pid, 'SIGKILL');
    await eventually('the cursor is invalid', () => isInvalid().catch(() => false));
  });

  it('is invalid when the table was dropped and restored', async () => {
    await server.database.query(
      'ALTER TABLE credential_changes RENAME TO lost; CREATE TABLE credential_changes (LIKE lost INCLUDING ALL)',
    );
    expect(await isInvalid()).toBe(true);
  });
});
