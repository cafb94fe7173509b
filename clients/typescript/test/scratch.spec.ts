import fc from 'fast-check';
import { mistakes } from './model/mistakes.js';
import { World } from './model/world.js';
describe('scratch', () => {
  it('counts', async () => {
    for (const [mistake, histories] of mistakes) {
      const started = performance.now();
      const r = await fc.check(fc.asyncProperty(histories, async (history) => {
          const world = new World(mistake);
          await world.run(history);
          return world.violations.length === 0;
        }), { numRuns: Number(process.env.SCRATCH ?? 1500), endOnFailure: true });
      console.error(mistake, r.failed, r.numRuns, Math.round(performance.now() - started), r.seed);
    }
  }, 3_600_000);
});
