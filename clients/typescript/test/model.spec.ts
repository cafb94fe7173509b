import fc from 'fast-check';
import { LEASE_MS, World, type Mistake, type Step } from './model.js';

/** For a longer search: MODEL_RUNS=20000. */
const RUNS = Number(process.env.MODEL_RUNS ?? 400);
/** Enough runs to find a mistake, usually long before the last. */
const RUNS_TO_FIND_A_MISTAKE = 20_000;

const act = fc.oneof(
  { weight: 30, arbitrary: fc.constant<Step['act']>('present') },
  { weight: 3, arbitrary: fc.constantFrom<Step['act']>('end', 'disable') },
  { weight: 4, arbitrary: fc.constant<Step['act']>('route') },
  { weight: 3, arbitrary: fc.constantFrom<Step['act']>('cut verifier', 'cut replica') },
  { weight: 2, arbitrary: fc.constantFrom<Step['act']>('pause verifier', 'pause replica', 'restart replica') },
  { weight: 2, arbitrary: fc.constantFrom<Step['act']>('prune', 'jump', 'purge', 'abort', 'fail over', 'crash') },
);
const latency = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 30 }) },
  { weight: 1, arbitrary: fc.integer({ min: 30, max: LEASE_MS }) },
);
const histories = fc.array(
  fc.record<Step>({
    afterMs: fc.integer({ min: 0, max: LEASE_MS / 5 }),
    act,
    verifier: fc.integer({ min: 0, max: 1 }),
    replica: fc.integer({ min: 0, max: 2 }),
    credential: fc.integer({ min: 0, max: 3 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 200 }),
    backMs: latency,
  }),
  { minLength: 40, maxLength: 100 },
);

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
    'the model finds a mistake: %s',
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
