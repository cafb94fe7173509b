import fc from 'fast-check';
import { LEASE_MS, World, type Mistake, type Step } from './simulation.js';

const RUNS = 1_000;
/** The same histories in each run, since one of 10,000 refutes some mistakes. All are refuted within the first half. */
const REFUTING = { seed: 4, numRuns: 6_000, endOnFailure: true };
/** Longer than any simulated run. */
const GRACE_MS = 100_000;

type Act = Step['act'];
type WeightedActs = fc.WeightedArbitrary<Act>[];

const ORDINARY_ACTS: WeightedActs = [
  { weight: 20, arbitrary: fc.constant<Act>('validate') },
  { weight: 3, arbitrary: fc.constant<Act>('rotate') },
  { weight: 1, arbitrary: fc.constantFrom<Act>('revoke', 'restart') },
  { weight: 2, arbitrary: fc.constantFrom<Act>('cut', 'mend', 'mend') },
  { weight: 2, arbitrary: fc.constantFrom<Act>('pause', 'resume', 'resume') },
  { weight: 1, arbitrary: fc.constantFrom<Act>('purge', 'jump') },
];
/** After these steps, transaction ids that were seen are assigned again. */
const FAILOVERS: WeightedActs = [
  { weight: 4, arbitrary: fc.constant<Act>('abort') },
  { weight: 2, arbitrary: fc.constantFrom<Act>('fail over', 'crash') },
];
const latency = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 5, max: LEASE_MS - 5 }) },
);

function historiesOf(acts: WeightedActs): fc.Arbitrary<Step[]> {
  const step = fc.record({
    afterMs: fc.integer({ min: 0, max: LEASE_MS / 5 }),
    act: fc.oneof(...acts),
    replica: fc.integer({ min: 0, max: 2 }),
    credential: fc.integer({ min: 0, max: 2 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 40 }),
    backMs: latency,
  });
  return fc.array(step, { minLength: 40, maxLength: 120 });
}

const histories = historiesOf(ORDINARY_ACTS);
const historiesWithFailovers = historiesOf([...ORDINARY_ACTS, ...FAILOVERS]);

describe('after a revoking call has answered, no replica accepts the key', () => {
  it.each([
    ['one database', histories, 0],
    ['failovers and crashes that assign transaction ids anew', historiesWithFailovers, 0],
    // A disconnected replica may: the operator allowed it.
    ['failovers and a grace, if it has heard from the database since', historiesWithFailovers, GRACE_MS],
  ])(
    'under any faults of network, clocks and processes: %s',
    async (_what, given, graceMs) => {
      let [accepted, fromMemory] = [0, 0];
      await fc.assert(
        fc.asyncProperty(given, async (history) => {
          const world = new World('none', graceMs);
          await world.run(history);
          accepted += world.accepted;
          fromMemory += world.fromMemory;
          expect(world.violations).toEqual([]);
        }),
        { numRuns: RUNS },
      );
      // Otherwise the run proves nothing about the cache.
      expect(accepted).toBeGreaterThan(RUNS);
      expect(fromMemory).toBeGreaterThan(accepted / 10);
    },
    120_000,
  );

  it.each<[Mistake, fc.Arbitrary<Step[]>, number]>([
    ['no wait', histories, 0],
    ['seq instead of snapshot', histories, 0],
    ['lease from the answer', histories, 0],
    ['remembers stale rows', histories, 0],
    ['purge unnoticed', histories, GRACE_MS],
    // The previous protocol.
    ['horizon instead of snapshot', historiesWithFailovers, GRACE_MS],
    ['epoch not compared', historiesWithFailovers, GRACE_MS],
    ['epoch without the crash', historiesWithFailovers, GRACE_MS],
  ])(
    'which the simulation refutes for a faulty protocol: %s',
    async (mistake, given, graceMs) => {
      const isKept = async (history: Step[]): Promise<boolean> => {
        const world = new World(mistake, graceMs);
        await world.run(history);
        return world.violations.length === 0;
      };
      const { failed } = await fc.check(fc.asyncProperty(given, isKept), REFUTING);
      expect(failed).toBe(true);
    },
    120_000,
  );
});
