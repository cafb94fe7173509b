import fc from 'fast-check';
import { LEASE_MS, World, type Mistake, type Step } from './simulation.js';

const RUNS = 1_500;
/** Enough for a wrong protocol to be found out, most of the time well before. */
const RUNS_TO_FIND_A_MISTAKE = 20_000;

const latency = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 5, max: LEASE_MS - 5 }) },
);
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: LEASE_MS / 5 }),
    act: fc.oneof(
      { weight: 20, arbitrary: fc.constant('validate' as const) },
      { weight: 3, arbitrary: fc.constant('rotate' as const) },
      { weight: 1, arbitrary: fc.constantFrom('revoke' as const, 'restart' as const) },
      { weight: 2, arbitrary: fc.constantFrom('cut' as const, 'mend' as const, 'mend' as const) },
      { weight: 2, arbitrary: fc.constantFrom('pause' as const, 'resume' as const, 'resume' as const) },
      { weight: 1, arbitrary: fc.constantFrom('purge' as const, 'jump' as const) },
      { weight: 1, arbitrary: fc.constantFrom('abort' as const, 'fail over' as const, 'crash' as const) },
    ),
    replica: fc.integer({ min: 0, max: 2 }),
    credential: fc.integer({ min: 0, max: 2 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 40 }),
    backMs: latency,
  }),
  { minLength: 40, maxLength: 120 },
);

/** Longer than any history. */
const GRACE_MS = 100_000;

async function violationsOf(history: readonly Step[], mistake: Mistake, graceMs: number): Promise<string[]> {
  const world = new World(mistake, graceMs);
  await world.run(history);
  return world.violations;
}

describe('when the call that revokes has answered, no replica accepts the key any more', () => {
  it.each([
    ['without a grace', 0],
    ['with a grace, for a replica that has heard from the database since', GRACE_MS],
  ])(
    'whatever the network, the clocks, the processes and the database do: %s',
    async (_terms, graceMs) => {
      let [accepted, fromMemory] = [0, 0];
      await fc.assert(
        fc.asyncProperty(steps, async (history) => {
          const world = new World('none', graceMs);
          await world.run(history);
          accepted += world.accepted;
          fromMemory += world.fromMemory;
          expect(world.violations).toEqual([]);
        }),
        { numRuns: RUNS },
      );
      // What proves something about the cache: that it was used.
      expect(accepted).toBeGreaterThan(RUNS);
      expect(fromMemory).toBeGreaterThan(accepted / 10);
    },
    120_000,
  );

  it.each<[Mistake, number]>([
    ['no wait', 0],
    ['seq instead of snapshot', 0],
    ['horizon instead of snapshot', 0],
    ['horizon instead of snapshot', GRACE_MS],
    ['epoch not compared', 0],
    ['epoch not compared', GRACE_MS],
    ['epoch without the crash', GRACE_MS],
    ['lease from the answer', 0],
    ['remembers stale rows', 0],
    ['purge unnoticed', GRACE_MS],
  ])(
    'which a protocol with a mistake does not keep: %s, with a grace of %s ms',
    async (mistake, graceMs) => {
      const { failed } = await fc.check(
        fc.asyncProperty(steps, async (history) => (await violationsOf(history, mistake, graceMs)).length === 0),
        { numRuns: RUNS_TO_FIND_A_MISTAKE, endOnFailure: true },
      );
      expect(failed).toBe(true);
    },
    120_000,
  );
});
