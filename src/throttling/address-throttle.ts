import { Injectable } from '@nestjs/common';
import type { SecurityEvent } from '../common/security-event.js';
import { Environment } from '../config/environment.js';
import { Budget } from './budget.js';
import { CounterStore } from './counter-store.js';
import { tooManyRequests } from './too-many-requests.js';

export type ThrottledRoute = 'registration' | 'refresh';

const EVENTS: Readonly<Record<ThrottledRoute, SecurityEvent>> = {
  registration: 'user.registration.throttled',
  refresh: 'session.refresh.throttled',
};

/** Counts the calls of one address, good or not. */
@Injectable()
export class AddressThrottle {
  private readonly budgets: Readonly<Record<ThrottledRoute, Budget>>;

  constructor(
    private readonly store: CounterStore,
    { limits }: Environment,
  ) {
    this.budgets = {
      registration: new Budget(store, 'registration', limits.registrationPerAddress),
      refresh: new Budget(store, 'refresh', limits.refreshPerAddress),
    };
  }

  /**
   * @returns what is left of the budget, and for how long
   * @throws {ProblemException} too_many_requests; unavailable when nothing can be counted
   */
  async spend(route: ThrottledRoute, network: string): Promise<{ budget: Budget; remaining: number; forMs: number }> {
    const budget = this.budgets[route];
    const key = this.store.keyOf('address', network);
    let forMs = budget.exhaustedForMs(key);
    if (forMs > 0) throw tooManyRequests(EVENTS[route], [{ budget, forMs }]);
    const { isWithin, remaining, endsAtMs } = await budget.reserve(key);
    forMs = endsAtMs - performance.now();
    if (isWithin) return { budget, remaining, forMs };
    // No point comes back here: what is beyond the budget stays so until the window ends.
    budget.rememberExhausted(key, endsAtMs);
    throw tooManyRequests(EVENTS[route], [{ budget, forMs }]);
  }
}
