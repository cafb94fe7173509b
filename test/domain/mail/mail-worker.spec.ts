import { computeSlots } from '../../../src/domain/mail/mail-worker.js';

describe('the slots of the mail worker', () => {
  it('are six with the default pool, of which retries may take three and leave one', () => {
    expect(computeSlots(10)).toEqual({ all: 6, firstAttempts: 5, retries: 3 });
  });

  it('leave requests a connection of a small pool, and each kind of attempt a slot', () => {
    for (let poolSize = 3; poolSize <= 20; poolSize += 1) {
      const { all, firstAttempts, retries } = computeSlots(poolSize);
      expect(all).toBeLessThan(poolSize);
      for (const attempts of [firstAttempts, retries]) {
        expect(attempts).toBeGreaterThanOrEqual(1);
        if (all > 1) expect(attempts).toBeLessThan(all);
      }
    }
  });

  it.each([1, 2])('are one with a pool of %d, so that mail is sent', (poolSize) => {
    expect(computeSlots(poolSize)).toEqual({ all: 1, firstAttempts: 1, retries: 1 });
  });
});
