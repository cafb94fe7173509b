import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../../src/foundation/database/database.js';
import type { Log } from '../../../src/foundation/logging/log.js';
import { Propagation } from '../../../src/domain/revocation/propagation.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { TcpProxy } from '../../../tools/tcp-proxy.js';
import { type Device, TestApp } from '../../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';
import type { Answer } from '../../../packages/lease/src/change-feed.js';
import { KeyCache } from '../../../packages/lease/src/key-cache.js';
import { type Clocks, RevocationLease } from '../../../packages/lease/src/lease.js';
import { computeDigest } from '../../../src/foundation/crypto/secret.js';

const SHORT_WAITS = { databaseConnectTimeoutMs: 1_000, databaseStatementTimeoutMs: 1_000 };

describe('a call that revokes', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  /** Has no cache, and so no lease of its own to wait for. */
  let app: TestApp;
  /** Sees the database through the proxy, and answers from its cache for longer than the other would wait. */
  let cutOff: TestApp;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    app = await TestApp.start({ database, variables: { REVOCATION_LEASE_MS: '0' } });
    cutOff = await TestApp.start({
      database: { ...database, url: proxy.url },
      variables: { REVOCATION_LEASE_MS: '1500' },
      settings: SHORT_WAITS,
    });
  });

  afterAll(async () => {
    await cutOff.stop();
    await app.stop();
    await proxy.close();
    await database.drop();
  });

  /** A node that the other replica has in its cache when it is cut off. */
  const cachedNode = async (): Promise<Device> => {
    const node = await app.node();
    await eventually('it is cached', async () => (await cutOff.validateNode(node.header)).status === 200);
    proxy.blackHole(true);
    return node;
  };

  afterEach(async () => {
    proxy.blackHole(false);
    await eventually('the replica is back', async () => (await cutOff.validateNode('unknown:key')).status === 401);
  });

  const path = ({ nodeId }: Device): string => `/nodes/${nodeId}`;
  const revokedInPsql = (node: Device) =>
    database.query('UPDATE nodes SET revoked_at = now() WHERE id = $1', [node.nodeId]);
  const rename = (node: Device) => app.admin.patch(path(node), { room: 'attic' });
  const deletedInPsql = (node: Device) => database.query('DELETE FROM nodes WHERE id = $1', [node.nodeId]);

  it.each<[string, (node: Device) => Promise<unknown>]>([
    ['revokes', (node) => app.admin.delete(path(node)).expect(204)],
    ['rotates without an overlap', (node) => app.admin.post(`${path(node)}/rotate`, { overlap_hours: 0 }).expect(200)],
    ['finds it revoked', (node) => revokedInPsql(node).then(() => app.admin.delete(path(node)).expect(204))],
    ['finds it gone', (node) => deletedInPsql(node).then(() => app.admin.delete(path(node)).expect(404))],
    ['cannot rotate it', (node) => revokedInPsql(node).then(() => app.admin.post(`${path(node)}/rotate`).expect(409))],
    ['cannot rename it', (node) => revokedInPsql(node).then(() => rename(node).expect(409))],
  ])('answers after the longest lease of all replicas, including a disconnected one: %s', async (_what, end) => {
    const node = await cachedNode();
    await end(node);
    expectProblem(await cutOff.validateNode(node.header), problems.unavailable);
  });

  it('does not wait when no promise was announced within the last minute', async () => {
    const node = await app.node();
    await database.query(`UPDATE replica_leases SET seen_at = seen_at - interval '2 minutes'`);
    await proxy.close();
    const startedAt = performance.now();
    await app.admin.delete(path(node)).expect(204);
    const tookMs = performance.now() - startedAt;
    await proxy.open();
    expect(tookMs).toBeLessThan(1_500);
  });

  it('waits for the half second of a replica without a lease, once that has given a fresh verdict', async () => {
    await database.query('DELETE FROM replica_leases');
    proxy.blackHole(true);
    const [asked, revoked] = [await app.node(), await app.node()];
    const promises = () => database.query('SELECT lease_ms FROM replica_leases');
    expect(await promises()).toEqual([]);
    const { headers } = await app.validateNode(asked.header).set('Cache-Control', 'no-cache').expect(200);
    expect(headers['x-platform-fresh-for-ms']).toBe('500');
    expect(await promises()).toEqual([{ lease_ms: 500 }]);
    const startedAt = performance.now();
    await app.admin.delete(path(revoked)).expect(204);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(512);
  });

  it('revokes, and waits for the longest lease, when the leases cannot be read', async () => {
    const node = await app.node();
    await database.query('ALTER TABLE replica_leases RENAME TO hidden');
    try {
      await app.admin.delete(path(node)).expect(204);
    } finally {
      await database.query('ALTER TABLE hidden RENAME TO replica_leases');
    }
    expect(app.log.lines.map(({ message }) => message)).toContain('leases_not_read');
    expectProblem(await app.validateNode(node.header), problems.invalidNodeCredentials);
  });
});

describe('calls that wait at the same time', () => {
  it('share one read of the promises, which begins after the commit of each and after the read before it', async () => {
    const reads: ((row: object) => void)[] = [];
    const row = () => new Promise((resolve) => reads.push(resolve));
    const propagation = new Propagation({ row } as unknown as Database, { warn: () => undefined } as unknown as Log);
    const first = propagation.awaitPropagation();
    await eventually('the first read has begun', () => reads.length === 1);
    const answered = jest.fn();
    const later: Promise<void>[] = [];
    for (let call = 0; call < 50; call += 1) {
      later.push(propagation.awaitPropagation().then(answered));
      await nextTurn();
    }
    // The database holds up the first read, which holds one connection of the pool: there is no second.
    expect(reads).toHaveLength(1);
    reads[0]!({ longest: 0 });
    await first;
    await eventually('the next read has begun', () => reads.length === 2);
    await nextTurn();
    expect(answered).not.toHaveBeenCalled();
    reads[1]!({ longest: 0 });
    await Promise.all(later);
    expect(reads).toHaveLength(2);
  });
});

const LEASE_MS = 500;

const DAY_MS = 86_400_000;

const QUIET: Answer = { cursor: 'of the model', reset: false, changes: [] };

const DIGEST = computeDigest('a key');

/** A lease over clocks that the test moves, and a cache with one key. */
function leaseOver(now: { monotonic: number; wall: number }, outageGraceMs = 0) {
  const clocks: Clocks = { monotonic: () => now.monotonic, wall: () => now.wall };
  const lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs }, clocks);
  const cache = new KeyCache<{ name: string }>('node', lease, 10);
  const remember = (id: string): void =>
    cache.remember(id, { digest: DIGEST, identity: { name: id }, expiresAt: null }, cache.takeTicket());
  return {
    remember,
    lease,
    hears: (answer: Partial<Answer> = {}) => lease.renew(() => Promise.resolve({ ...QUIET, ...answer })),
    recalls: (id: string): boolean => cache.recall(id, DIGEST, () => new Date()) !== undefined,
  };
}

describe('a cached key', () => {
  it('stays while the feed does not name it, and is evicted by a reset', async () => {
    const { hears, remember, recalls } = leaseOver({ monotonic: 0, wall: 0 });
    await hears({ reset: true });
    for (const id of ['a', 'b']) remember(id);
    const others = { kind: 'app', id: 'b' } as const;
    await hears({ changes: [{ kind: 'node', id: 'a' }, others] });
    expect([recalls('a'), recalls('b')]).toEqual([false, true]);
    await hears({ reset: true });
    expect(recalls('b')).toBe(false);
  });

  it.each([
    ['was stopped for three days', { monotonic: 3 * DAY_MS, wall: 3 * DAY_MS }],
    ['slept for three days with its machine', { monotonic: 0, wall: 3 * DAY_MS }],
  ])('is evicted in a process that %s, also with the longest grace', async (_what, later) => {
    const now = { monotonic: 0, wall: 0 };
    const { hears, lease, remember, recalls } = leaseOver(now, DAY_MS);
    await hears({ reset: true });
    remember('a');
    Object.assign(now, later);
    expect(lease.isHeld).toBe(false);
    await hears();
    expect([lease.isHeld, recalls('a')]).toEqual([true, false]);
  });

  it('is read again after a minute, also when the feed did not name it', async () => {
    const now = { monotonic: 0, wall: 0 };
    const { hears, remember, recalls } = leaseOver(now);
    await hears({ reset: true });
    remember('a');
    const recalled: number[] = [];
    for (; now.monotonic <= 120_000; now.monotonic += LEASE_MS / 5) {
      await hears();
      if (recalls('a')) recalled.push(now.monotonic);
    }
    expect(recalled.at(-1)).toBeGreaterThan(59_000);
    expect(recalled.at(-1)).toBeLessThan(60_000);
    remember('a');
    expect(recalls('a')).toBe(true);
  });

  it('does not expire while the database is unavailable and the operator allows a grace', async () => {
    const now = { monotonic: 0, wall: 0 };
    const { hears, remember, recalls } = leaseOver(now, DAY_MS);
    await hears({ reset: true });
    remember('a');
    now.monotonic = DAY_MS;
    expect(recalls('a')).toBe(true);
    await hears();
    expect(recalls('a')).toBe(false);
  });
});

describe('what is left of a lease', () => {
  it('is handed on without the grace: the lesser remainder of the two clocks, rounded down', async () => {
    const now = { monotonic: 0, wall: 0 };
    const { hears, lease } = leaseOver(now, DAY_MS);
    expect(lease.remainingMs).toBe(0);
    await hears();
    expect(lease.remainingMs).toBe(LEASE_MS);
    Object.assign(now, { monotonic: 100.5, wall: 50 });
    expect(lease.remainingMs).toBe(LEASE_MS - 101);
    now.wall = 200;
    expect(lease.remainingMs).toBe(LEASE_MS - 200);
    now.monotonic = LEASE_MS;
    expect([lease.isHeld, lease.remainingMs]).toEqual([true, 0]);
  });
});
