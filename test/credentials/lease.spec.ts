import { RevocationLease, type Changes, type Clocks } from '../../src/credentials/revocation-lease.js';

const LEASE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A lease over clocks that the test moves, and how often it had everything forgotten. */
function leaseOver(now: { monotonic: number; wall: number }, outageGraceMs = 0) {
  const clocks: Clocks = { monotonic: () => now.monotonic, wall: () => now.wall };
  const lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs }, clocks);
  const seen = { forgotten: [] as string[], forgottenAll: 0 };
  lease.add({ forget: (id) => void seen.forgotten.push(id), forgetAll: () => void (seen.forgottenAll += 1) });
  return { seen, lease, hears: (answer: Changes) => lease.renew(() => Promise.resolve(answer)) };
}

describe('what is remembered', () => {
  it('stays while each answer goes on where the one before ended', async () => {
    const { seen, hears } = leaseOver({ monotonic: 0, wall: 0 });
    await hears({ horizon: 100n, changes: [] });
    await hears({ horizon: 105n, changes: [{ seq: '1', credentialId: 'a' }], oldest: 7n });
    // All that was purged is below what was read.
    await hears({ horizon: 106n, changes: [], oldest: 104n });
    expect(seen).toEqual({ forgotten: ['a'], forgottenAll: 1 });
  });

  it.each([100n, 101n, 200n])(
    'is forgotten when the oldest change left is %s and 100 was not yet read',
    async (oldest) => {
      const { seen, hears } = leaseOver({ monotonic: 0, wall: 0 });
      await hears({ horizon: 100n, changes: [] });
      await hears({ horizon: 300n, changes: [{ seq: '9', credentialId: 'a' }], oldest });
      expect(seen.forgottenAll).toBe(2);
    },
  );

  it.each([
    ['was stopped for three days', { monotonic: 3 * DAY_MS, wall: 3 * DAY_MS }],
    ['slept for three days with its machine', { monotonic: 0, wall: 3 * DAY_MS }],
  ])('is forgotten by a process that %s, also with the longest grace', async (_what, later) => {
    const now = { monotonic: 0, wall: 0 };
    const { seen, lease, hears } = leaseOver(now, DAY_MS);
    await hears({ horizon: 100n, changes: [], oldest: 7n });
    Object.assign(now, later);
    expect(lease.isHeld).toBe(false);
    await hears({ horizon: 101n, changes: [], oldest: 7n });
    expect({ isHeld: lease.isHeld, ...seen }).toMatchObject({ isHeld: true, forgottenAll: 2 });
  });
});
