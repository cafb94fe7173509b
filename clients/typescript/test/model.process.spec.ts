import fc from 'fast-check';
import { mistakes } from './model/mistakes.js';
import { World } from './model/world.js';

/** Enough to find each mistake, usually long before the last. */
const RUNS_TO_FIND_A_MISTAKE = 20_000;

describe('the model of verifiers', () => {
  it.each(mistakes)(
    'finds a mistake: %s',
    async (mistake, histories) => {
      const search = fc.check(
        fc.asyncProperty(histories, async (history) => {
          const world = new World(mistake);
          await world.run(history);
          return world.violations.length === 0;
        }),
        { numRuns: RUNS_TO_FIND_A_MISTAKE, endOnFailure: true },
      );
      expect((await search).failed).toBe(true);
    },
    600_000,
  );
});
