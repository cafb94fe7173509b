import { Injectable } from '@nestjs/common';
import { toNetworks } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { Budgets } from './budgets.js';
import { toRateLimitHeaders } from './exhausted-budgets.js';
import { ThrottleWindows } from './throttle-windows.js';

const CALLS = {
  registration: { event: 'user.registration.throttled', limit: 'registrationLimitPerAddress' },
  refresh: { event: 'session.refresh.throttled', limit: 'refreshLimitPerAddress' },
  'second-factor-address': { event: 'user.second_factor.throttled', limit: 'secondFactorLimitPerAddress' },
  mail: { event: 'user.mail.throttled', limit: 'mailLimitPerAddress' },
  link: { event: 'user.link.throttled', limit: 'linkLimitPerAddress' },
  'admin-key': { event: 'admin.key.throttled', limit: 'adminKeyLimitPerAddress' },
} as const;

export type ThrottledCall = keyof typeof CALLS;

/**
 * Counts calls by network: registrations, refreshes, second factors, requests for mails, presented links, and wrong admin
 * keys. None is refunded.
 */
@Injectable()
export class AddressThrottle {
  constructor(
    private readonly budgets: Budgets,
    private readonly windows: ThrottleWindows,
    private readonly environment: Environment,
  ) {}

  /**
   * @returns the RateLimit header fields
   * @throws {ProblemException} too_many_requests; unavailable without the counters
   */
  async spend(call: ThrottledCall, address: string | undefined): Promise<Record<string, string>> {
    const { event, limit } = CALLS[call];
    const networks = toNetworks(address);
    const budgets = this.budgets.create(call, this.environment[limit], { networks });
    const turn = { networks, isKnown: false };
    const [row] = await this.windows.spend(event, budgets, turn);
    return row ? toRateLimitHeaders(budgets[0], row) : {};
  }
}
