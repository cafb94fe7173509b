import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { toNetworks } from '../common/network.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { Environment } from '../config/environment.js';
import { Budgets, type Budget, type ThrottleEvent } from './budgets.js';
import { ExhaustedBudgets } from './exhausted-budgets.js';

const MAX_NETWORKS = 10_000;

/**
 * Counts 503 `hashing_busy` by network and refuses a flood of them with 429. The password queue belongs to this replica,
 * and so does this count: it costs no statement.
 */
@Injectable()
export class BusyThrottle {
  private readonly counts = new LRUCache<string, number>({ max: MAX_NETWORKS });

  constructor(
    private readonly budgets: Budgets,
    private readonly exhausted: ExhaustedBudgets,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} too_many_requests */
  async refuseExhausted(event: ThrottleEvent, address: string | null): Promise<void> {
    await this.exhausted.refuseAny(event, this.createBudgets(address));
  }

  /** @param error counts when it is hashing_busy */
  count(error: unknown, address: string | null): void {
    if (!(error instanceof ProblemException && error.problem === problems.hashingBusy)) return;
    for (const budget of this.createBudgets(address)) {
      const { key, limit } = budget;
      const count = (this.counts.get(key) ?? 0) + 1;
      this.counts.set(key, count, { ttl: limit.seconds * 1_000, noUpdateTTL: true });
      if (count >= limit.points) this.exhausted.add(budget, this.counts.getRemainingTTL(key));
    }
  }

  private createBudgets(address: string | null): Budget[] {
    const networks = toNetworks(address);
    return this.budgets.create('hashing-busy', this.environment.hashingBusyLimitPerAddress, { networks });
  }
}
