import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { toNetworks } from '../common/network.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import type { SecurityEvent } from '../common/security-event.js';
import { Environment } from '../config/environment.js';
import { ThrottleWindows } from './throttle-windows.js';
import type { Share } from './too-many-requests.js';

const MAX_NETWORKS = 10_000;

/**
 * Refuses a flood of 503 with 429: counts by network what found no place in the password queue. The queue belongs to
 * this replica, and so does the count: it costs no statement.
 */
@Injectable()
export class BusyThrottle {
  private readonly counts = new LRUCache<string, number>({ max: MAX_NETWORKS });

  constructor(
    private readonly windows: ThrottleWindows,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} too_many_requests */
  async refuseExhausted(event: SecurityEvent, address: string | undefined): Promise<void> {
    await this.windows.refuseExhausted(event, this.sharesOf(address));
  }

  /** @param error counts when it is hashing_busy */
  count(error: unknown, address: string | undefined): void {
    if (!(error instanceof ProblemException && error.problem === problems.hashingBusy)) return;
    for (const share of this.sharesOf(address)) {
      const { key, limit } = share;
      const count = (this.counts.get(key) ?? 0) + 1;
      this.counts.set(key, count, { ttl: limit.seconds * 1_000, noUpdateTTL: true });
      if (count >= limit.points) this.windows.exhaust(share, this.counts.getRemainingTTL(key));
    }
  }

  private sharesOf(address: string | undefined): Share[] {
    return this.windows.shares('hashing-busy', this.environment.limits.hashingBusyPerAddress, toNetworks(address));
  }
}
