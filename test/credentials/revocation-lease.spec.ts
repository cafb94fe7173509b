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
    ),
    replica: fc.integer({ min: 0, max: 2 }),
    credential: fc.integer({ min: 0, max: 2 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 40 }),
    backMs: latency,
  }),
  { minLength: 40, maxLength: 120 },
);

async function violationsOf(history: readonly Step[], mistake: Mistake): Promise<string[]> {
  const world = new World(mistake);
  await world.run(history);
  return world.violations;
}

describe('when the call that revokes has answered, no replica accepts the key any more', () => {
  it('whatever the network, the clocks and the processes do', async () => {
    let [accepted, fromMemory] = [0, 0];
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const world = new World('none');
        await world.run(history);
        accepted += world.accepted;
        fromMemory += world.fromMemory;
        expect(world.violations).toEqual([]);
      }),
      { numRuns: RUNS },
    );
    // What proves something about the memory: that it was used.
    expect(accepted).toBeGreaterThan(RUNS);
    expect(fromMemory).toBeGreaterThan(accepted / 10);
  }, 120_000);

  it.each([
    'no wait',
    'seq instead of horizon',
    'lease from the answer',
    'remembers stale rows',
    'purge unnoticed',
  ] as const)(
    'which a protocol with a mistake does not keep: %s',
    async (mistake) => {
      const { failed } = await fc.check(
        fc.asyncProperty(steps, async (history) => (await violationsOf(history, mistake)).length === 0),
        { numRuns: RUNS_TO_FIND_A_MISTAKE, endOnFailure: true },
      );
      expect(failed).toBe(true);
    },
    120_000,
  );
});
