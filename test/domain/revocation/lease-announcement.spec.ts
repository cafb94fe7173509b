import { Client } from 'pg';
import { LeaseAnnouncement } from '../../../src/domain/revocation/lease-announcement.js';
import { TestApp } from '../../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

describe('the announcement of a lease', () => {
  let database: TestDatabase;
  let client: Client;
  let nowMs: number;
  let wallMs: number;
  let announcement: LeaseAnnouncement;

  beforeAll(async () => {
    const app = await TestApp.start({ database: (database = await createTestDatabase()) });
    await app.stop();
  });

  beforeEach(async () => {
    await database.query('DELETE FROM replica_leases');
    client = new Client({ connectionString: database.url });
    await client.connect();
    nowMs = 0;
    wallMs = 0;
    announcement = new LeaseAnnouncement(500, { monotonic: () => nowMs, wall: () => wallMs });
  });

  afterEach(() => client.end());
  afterAll(() => database.drop());

  const leases = () =>
    database.query(`SELECT lease_ms, seen_at > now() - interval '5 minutes' AS is_new FROM replica_leases`);

  // The monotonic clock may stop while the machine is suspended.
  const CLOCKS: [string, (ms: number) => void][] = [
    ['monotonic', (ms) => (nowMs = ms)],
    ['wall', (ms) => (wallMs = ms)],
  ];

  it.each(CLOCKS)('is repeated every ten seconds of the %s clock', async (_clock, moveTo) => {
    await announcement.announceIfDue(client);
    await database.query(`UPDATE replica_leases SET seen_at = now() - interval '1 hour'`);
    moveTo(9_999);
    await announcement.announceIfDue(client);
    expect(await leases()).toEqual([{ lease_ms: 500, is_new: false }]);
    moveTo(10_000);
    await announcement.announceIfDue(client);
    expect(await leases()).toEqual([{ lease_ms: 500, is_new: true }]);
  });

  it.each(CLOCKS)('must succeed before the first promise, and every 30 s of the %s clock', async (_clock, moveTo) => {
    await client.query('SET default_transaction_read_only = on');
    expect(announcement.isCurrent).toBe(false);
    await expect(announcement.announceIfDue(client)).rejects.toThrow('read-only');
    await client.query('SET default_transaction_read_only = off');
    await announcement.announceIfDue(client);
    await client.query('SET default_transaction_read_only = on');
    moveTo(29_999);
    await announcement.announceIfDue(client);
    expect(announcement.isCurrent).toBe(true);
    moveTo(30_000);
    expect(announcement.isCurrent).toBe(false);
    await expect(announcement.announceIfDue(client)).rejects.toThrow('read-only');
  });

  it('is as old as its sending when the process was frozen before the answer arrived', async () => {
    const slow = {
      query: (text: string, values: unknown[]) => client.query(text, values).finally(() => (nowMs = 61_000)),
    };
    await announcement.announceIfDue(slow);
    expect(announcement.isCurrent).toBe(false);
  });

  it('is sent once for calls at the same time', async () => {
    let sent = 0;
    const counting = { query: (text: string, values: unknown[]) => ((sent += 1), client.query(text, values)) };
    await Promise.all([1, 2, 3].map(() => announcement.announceIfDue(counting)));
    expect(sent).toBe(1);
  });
});
