import { LOCKS } from '../../src/database/locks.js';

describe('advisory locks', () => {
  it('are each a number of their own: no work waits for another kind of work', () => {
    const numbers = Object.values(LOCKS);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});
