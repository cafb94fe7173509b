import { jest } from '@jest/globals';
import { RateLimiterMemory, type RateLimiterStoreAbstract } from 'rate-limiter-flexible';
import { AddressThrottle } from '../../src/throttling/address-throttle.js';
import { GuessBudget, type Reservation } from '../../src/throttling/budget.js';
import type { CounterStore } from '../../src/throttling/counter-store.js';
import { parseEnvironment } from '../../src/config/environment.js';
import { VARIABLES } from '../support/test-app.js';

const LIMIT = { points: 2, seconds: 900 };

/** Counters in memory, by their names. */
function memory() {
  const counters = new Map<string, RateLimiterMemory>();
  const counter: CounterStore['counter'] = (name) => {
    const made = new RateLimiterMemory({ points: LIMIT.points, duration: LIMIT.seconds, keyPrefix: name });
    counters.set(name, made);
    return made as unknown as RateLimiterStoreAbstract;
  };
  return { counters, store: { counter } as unknown as CounterStore };
}

describe('a lost point', () => {
  beforeAll(() => void jest.spyOn(performance, 'now').mockReturnValue(1_000_000));
  afterAll(() => void jest.restoreAllMocks());

  it.each([
    [2_900, 2],
    [1_000, 1],
    [999, undefined],
    [0, undefined],
    [-5, undefined],
  ])('of a window that goes on for %d ms is noted for %p seconds: never into the next window', async (ms, seconds) => {
    const { counters, store } = memory();
    const budget = new GuessBudget(store, 'guesses', LIMIT);
    const penalty = jest.spyOn(counters.get('guesses.lost')!, 'penalty');
    const reservation: Reservation = { key: 'k', isWithin: true, remaining: 1, endsAtMs: performance.now() + ms };
    await budget.lose(reservation);
    const noted = penalty.mock.calls.map(([, , options]) => (options as { customDuration: number }).customDuration);
    expect(noted).toEqual(seconds === undefined ? [] : [seconds]);
    await counters.get('guesses.lost')!.delete(reservation.key);
  });

  it('is counted only where a point can come back', () => {
    const { counters, store } = memory();
    new AddressThrottle(store, parseEnvironment({ ...VARIABLES, DATABASE_URL: 'postgres://localhost/none' }));
    expect([...counters.keys()]).toEqual(['registration', 'refresh']);
  });
});
