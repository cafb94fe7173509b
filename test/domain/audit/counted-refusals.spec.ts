import type { Actor } from '../../../src/foundation/access/actor.js';
import { CountedRefusals } from '../../../src/domain/audit/counted-refusals.js';
import type { Environment } from '../../../src/foundation/config/environment.js';
import type { ComparedClock } from '../../../src/foundation/database/compared-clock.js';
import type { Database } from '../../../src/foundation/database/database.js';
import type { Log } from '../../../src/foundation/logging/log.js';

const OUTAGE = new Error('Connection terminated unexpectedly');
const NOW = new Date('2026-11-21T09:00:00Z');
const ACTOR: Actor = { door: 'open', id: null, requestId: null, address: null };

describe('the refusals that wait in memory', () => {
  it('are each written with their count once, also when an outage begins between two of them', async () => {
    const failures = [undefined, OUTAGE];
    const written: [subject: unknown, count: unknown][] = [];
    const rows = (_statement: unknown, values: unknown[]): Promise<object[]> => {
      const failure = failures.shift();
      if (failure) return Promise.reject(failure);
      written.push([values[6], values[11]]);
      return Promise.resolve([]);
    };
    const warn = jest.fn();
    const refusals = new CountedRefusals(
      { masterKey: 'a master key of this test' } as unknown as Environment,
      { rows } as unknown as Database,
      { now: () => NOW } as ComparedClock,
      { warn } as unknown as Log,
    );
    for (const id of ['a', 'b', 'c', 'b'])
      refusals.deferRefusal({ event: 'node.validation.failed', reason: 'expired', counted: id, subject: id }, ACTOR);
    await refusals.flush();
    expect(written).toEqual([['a', 1]]);
    expect(warn).toHaveBeenCalledWith('refusals_not_recorded', expect.objectContaining({ count: 2 }));
    await refusals.flush();
    await refusals.flush();
    expect(written).toEqual([
      ['a', 1],
      ['b', 2],
      ['c', 1],
    ]);
  });
});
