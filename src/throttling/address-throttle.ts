import { Injectable } from '@nestjs/common';
import { toNetworks } from '../common/network.js';
import type { SecurityEvent } from '../common/security-event.js';
import { Environment } from '../config/environment.js';
import type { Limit } from '../config/limits.js';
import { ThrottleWindows } from './throttle-windows.js';
import { rateLimitHeaders } from './too-many-requests.js';

export type ThrottledCall = 'registration' | 'refresh' | 'admin-key';

/** Counts calls by network: all registrations and refreshes, and wrong admin keys. None is refunded. */
@Injectable()
export class AddressThrottle {
  private readonly calls: Readonly<Record<ThrottledCall, { event: SecurityEvent; limit: Limit }>>;

  constructor(
    private readonly windows: ThrottleWindows,
    { limits }: Environment,
  ) {
    this.calls = {
      registration: { event: 'user.registration.throttled', limit: limits.registrationPerAddress },
      refresh: { event: 'session.refresh.throttled', limit: limits.refreshPerAddress },
      'admin-key': { event: 'admin.key.throttled', limit: limits.adminKeyPerAddress },
    };
  }

  /**
   * @returns the header fields that say what is left
   * @throws {ProblemException} too_many_requests; unavailable without the counters
   */
  async spend(call: ThrottledCall, address: string | undefined): Promise<Record<string, string>> {
    const { event, limit } = this.calls[call];
    const networks = toNetworks(address);
    const shares = this.windows.shares(call, limit, networks);
    for (;;) {
      await this.windows.refuseExhausted(event, shares);
      const { lacking, remaining, forMs } = await this.windows.reserve(
        { shares, spends: true },
        { networks, isKnown: false },
      );
      if (lacking.length === 0) return rateLimitHeaders(shares[0], remaining, forMs);
    }
  }
}
