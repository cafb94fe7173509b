import fc from 'fast-check';
import { histories } from './histories.js';
import { World } from './model.js';

/** For a longer search: MODEL_RUNS=20000. */
const RUNS = Number(process.env.MODEL_RUNS ?? 100);

describe('after a revoking call has answered', () => {
  it('no verifier accepts the credential, under any faults of network, clocks, processes and PostgreSQL', async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(histories, async (history) => {
        const world = new World('none');
        await world.run(history);
        accepted += world.accepted;
        expect(world.violations).toEqual([]);
      }),
      { numRuns: RUNS },
    );
    // Otherwise the run proves nothing.
    expect(accepted).toBeGreaterThan(RUNS);
  }, 3_600_000);
});
