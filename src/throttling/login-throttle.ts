import { Injectable } from '@nestjs/common';
import type { Turn } from '../common/keyed-queue.js';
import { toNetworks } from '../common/network.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { BusyThrottle } from './busy-throttle.js';
import { ThrottleWindows } from './throttle-windows.js';

const EVENT = 'user.login.throttled';
/** How long a login waits for points in flight, which may yet be refunded. Then it is 503. */
const MAX_WAIT_MS = 20_000;

/** A guess that was reserved, and has to be settled or refunded. */
export interface Attempt {
  /** Its place in the queue for hashing. */
  readonly turn: Turn;
  /** Commits a wrong guess. Refunds a right one, and makes the network known to the account. */
  settle(isValid: boolean): Promise<void>;
  /** Nothing was verified, so nothing was guessed. Without the counters the reservation expires by itself. */
  refund(cause: unknown): Promise<void>;
}

/**
 * Counts wrong passwords per account and network, per account, and per network, alike for accounts that do not exist. A
 * network where the account logged in lately is known: there only the first limit can refuse, so that an attacker
 * elsewhere does not lock the owner out. See docs/throttling.md.
 */
@Injectable()
export class LoginThrottle {
  private readonly limits;

  constructor(
    private readonly windows: ThrottleWindows,
    private readonly busy: BusyThrottle,
    { limits }: Environment,
  ) {
    this.limits = limits;
  }

  /**
   * Reserves a guess, unless too many were wrong. A refused login is not verified at all.
   * @param account canonical address
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait
   */
  async begin(account: string, address: string | undefined): Promise<Attempt> {
    await this.busy.refuseExhausted(EVENT, address);
    try {
      return await this.reserve(account, address);
    } catch (error) {
      this.busy.count(error, address);
      throw error;
    }
  }

  private async reserve(account: string, address: string | undefined): Promise<Attempt> {
    const { windows, limits } = this;
    const networks = toNetworks(address);
    const shares = [
      ...windows.shares('login-account-address', limits.loginPerAccountAndAddress, networks, account),
      ...windows.shares('login-account', limits.loginPerAccount, [''], account),
      ...windows.shares('login-address', limits.loginPerAddress, networks),
    ];
    const days = limits.knownAddressDays;
    const [{ key: knownKey }] = windows.shares('known-address', { points: 1, seconds: 0 }, networks, account);
    const turn = { networks, isKnown: false };
    const waitUntil = performance.now() + MAX_WAIT_MS;
    for (;;) {
      await windows.refuseExhausted(EVENT, shares.slice(0, 1));
      // Asked without reserving, so that a flood that is over its limits writes nothing.
      if (windows.isExhausted(shares) && !(await windows.reserve({ shares: [], knownKey }, turn)).isKnown)
        await windows.refuseExhausted(EVENT, shares);
      const { isKnown, points, lacking } = await windows.reserve({ shares, knownKey }, turn);
      await windows.refuseExhausted(EVENT, lacking);
      if (!lacking[0]) {
        return {
          turn: { networks, isKnown },
          settle: (isValid) =>
            windows.settle({ points, isLost: !isValid, ...(isValid && { known: { key: knownKey, days } }) }),
          refund: async (cause) => {
            this.busy.count(cause, address);
            await windows.settle({ points, isLost: false }).catch(() => undefined);
          },
        };
      }
      if (performance.now() > waitUntil) throw new ProblemException(problems.hashingBusy);
      await windows.freed(lacking[0]);
    }
  }
}
