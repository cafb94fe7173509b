import { LOCKS } from '../../src/database/locks.js';

describe('advisory locks', () => {
  it('have distinct numbers, so that different jobs do not block each other', () => {
    const numbers = Object.values(LOCKS);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});
