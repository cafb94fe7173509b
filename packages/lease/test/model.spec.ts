import fc from 'fast-check';
import { histories } from './model/histories.js';
import { focusedHistories, mistakes, settings } from './model/mistakes.js';
import { World } from './model/world.js';

/** For a longer search: MODEL_RUNS=20000, and MODEL_SEED to repeat one. */
const RUNS = Number(process.env.MODEL_RUNS ?? 100);
const { MODEL_SEED } = process.env;
/** A change of the model gives the seeds other histories: then some mistakes show in one of 1,000. */
const MAX_FINDING_RUNS = 800;

describe('after a revoking call has answered', () => {
  it('no replica and no verifier accepts the credential, under any faults of network, clocks, processes and PostgreSQL', async () => {
    let accepted = 0;
    const all = fc.oneof({ weight: focusedHistories.length, arbitrary: histories }, ...focusedHistories);
    await fc.assert(
      fc.asyncProperty(all, fc.constantFrom(...settings), async (history, setting) => {
        const world = new World('none', setting);
        await world.run(history);
        accepted += world.accepted;
        expect(world.violations).toEqual([]);
      }),
      { numRuns: RUNS, ...(MODEL_SEED !== undefined && { seed: Number(MODEL_SEED) }) },
    );
    // Otherwise the run proves nothing.
    expect(accepted).toBeGreaterThan(RUNS);
  }, 3_600_000);
});

describe('the model of verifiers', () => {
  it.each(mistakes)('finds a mistake: $name', async ({ name, seed, where, setting }) => {
    const finds = fc.asyncProperty(where, async (history) => {
      const world = new World(name, setting);
      await world.run(history);
      return world.violations.length === 0;
    });
    expect((await fc.check(finds, { seed, numRuns: MAX_FINDING_RUNS, endOnFailure: true })).failed).toBe(true);
  });
});
