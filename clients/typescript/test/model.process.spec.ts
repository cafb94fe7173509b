import fc from 'fast-check';
import { histories } from './histories.js';
import { World, type Mistake } from './model.js';

/** Enough runs to find a mistake, usually long before the last. */
const RUNS_TO_FIND_A_MISTAKE = 20_000;

describe('the model of verifiers', () => {
  it.each<Mistake>([
    'no wait',
    'horizon instead of snapshot',
    'epoch not compared',
    'epoch without the crash',
    'purge unnoticed',
    'lease of a poll from the answer',
    'lease of a verdict from the answer',
    'lease of the replica from the answer',
    'late answer used',
    'grace handed on',
    'verdict from a replica’s memory',
    'reset remembered per connection',
    'user voids no ticket',
    'list truncated',
    'log pruned without raising its start',
    'repeated revocation does not wait',
  ])(
    'finds a mistake: %s',
    async (mistake) => {
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
