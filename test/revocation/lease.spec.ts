import type { Answer } from '../../src/revocation/change-feed.js';
import { KeyCache } from '../../src/keys/key-cache.js';
import { RevocationLease, type Clocks } from '../../src/revocation/lease.js';
import { computeDigest } from '../../src/crypto/secret.js';

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
    recalls: (id: string): boolean => cache.recall(id, DIGEST, new Date()) !== undefined,
  };
}

describe('a cached key', () => {
  it('stays while the feed does not name it', async () => {
    const { hears, remember, recalls } = leaseOver({ monotonic: 0, wall: 0 });
    await hears({ reset: true });
    for (const id of ['a', 'b']) remember(id);
    await hears({
      changes: [
        { kind: 'node', id: 'a' },
        { kind: 'app', id: 'b' },
      ],
    });
    expect([recalls('a'), recalls('b')]).toEqual([false, true]);
  });

  it('is evicted by a reset', async () => {
    const { hears, remember, recalls } = leaseOver({ monotonic: 0, wall: 0 });
    await hears({ reset: true });
    remember('a');
    await hears({ reset: true });
    expect(recalls('a')).toBe(false);
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
