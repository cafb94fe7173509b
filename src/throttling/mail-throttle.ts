import { Injectable } from '@nestjs/common';
import { toNetworks } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { Budgets } from './budgets.js';
import { ThrottleWindows } from './throttle-windows.js';

/** Counts the mails that are asked for, by recipient: alike for addresses that have no account (enumeration). */
@Injectable()
export class MailThrottle {
  constructor(
    private readonly budgets: Budgets,
    private readonly windows: ThrottleWindows,
    private readonly environment: Environment,
  ) {}

  /**
   * @param recipients canonical e-mail addresses
   * @param address of the client
   * @throws {ProblemException} too_many_requests; unavailable without the counters
   */
  async spend(recipients: readonly string[], address: string | null): Promise<void> {
    const budgets = [...new Set(recipients)].flatMap((recipient) =>
      this.budgets.create('mail-account', this.environment.mailLimitPerAccount, { account: recipient }),
    );
    const turn = { networks: toNetworks(address), isKnown: false };
    await this.windows.spend('user.mail.throttled', budgets, turn);
  }
}
