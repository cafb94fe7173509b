import { Injectable } from '@nestjs/common';
import type { Turn } from '../common/keyed-queue.js';
import { toNetworks } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { BusyThrottle } from './busy-throttle.js';
import { ThrottleKeys } from './throttle-keys.js';
import { ThrottleWindows } from './throttle-windows.js';

const EVENT = 'user.login.throttled';
/** How long a login waits for points in flight, which may be refunded. Then it is 503. */
const MAX_WAIT_MS = 20_000;

/** A reserved guess, to be settled or refunded. */
export interface Attempt {
  /** Its place in the queue for hashing. */
  readonly turn: Turn;
  /** Commits a wrong guess. Refunds a right one, and makes the network known to the account. */
  settle(isValid: boolean): Promise<void>;
  /** For a guess that was not verified. If it fails, the reservation expires after a minute. */
  refund(cause: unknown): Promise<void>;
}

/**
 * Counts wrong passwords per account and network, per account, and per network, alike for accounts that do not exist
 * (enumeration). A network where the account logged in lately is known: there only the first limit can refuse, so that
 * an attacker elsewhere does not lock the owner out.
 */
@Injectable()
export class LoginThrottle {
  constructor(
    private readonly keys: ThrottleKeys,
    private readonly windows: ThrottleWindows,
    private readonly busy: BusyThrottle,
    private readonly environment: Environment,
  ) {}

  /**
   * Reserves a guess, verifies it and settles it by the verdict. A guess that could not be verified is refunded.
   * @throws {ProblemException} as {@link begin}
   */
  async attempt<Verdict extends { readonly valid: boolean }>(
    account: string,
    address: string | null,
    verify: (turn: Turn) => Promise<Verdict>,
  ): Promise<Verdict> {
    const attempt = await this.begin(account, address);
    const verdict = await verify(attempt.turn).catch(async (error: unknown) => {
      await attempt.refund(error);
      throw error;
    });
    await attempt.settle(verdict.valid);
    return verdict;
  }

  /**
   * Reserves a guess before the password is verified. A throttled login is not verified.
   * @param account canonical e-mail address
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait
   */
  async begin(account: string, address: string | null): Promise<Attempt> {
    await this.busy.refuseExhausted(EVENT, address);
    try {
      return await this.reserve(account, address);
    } catch (error) {
      this.busy.count(error, address);
      throw error;
    }
  }

  private async reserve(account: string, address: string | null): Promise<Attempt> {
    const { keys, windows, environment } = this;
    const networks = toNetworks(address);
    const budgets = [
      ...keys.toBudgets('login-account-address', environment.loginLimitPerAccountAndAddress, networks, account),
      ...keys.toBudgets('login-account', environment.loginLimitPerAccount, [''], account),
      ...keys.toBudgets('login-address', environment.loginLimitPerAddress, networks),
    ];
    const [{ key: knownKey }] = keys.toBudgets('known-address', { points: 1, seconds: 0 }, networks, account);
    const turn = { networks, isKnown: false };
    const timed = { event: EVENT, request: { budgets, knownKey }, turn, maxWaitMs: MAX_WAIT_MS } as const;
    const { isKnown, points } = await windows.reserveInTime(timed, async () => {
      await keys.refuseExhausted(EVENT, budgets.slice(0, 1));
      // Without a reservation, so that a flood that is over its limits writes no row.
      if (keys.isExhausted(budgets) && !(await windows.reserve({ budgets: [], knownKey }, turn)).isKnown)
        await keys.refuseExhausted(EVENT, budgets);
    });
    return {
      turn: { networks, isKnown },
      settle: (isValid) => windows.settle({ points, isLost: !isValid, ...(isValid && { knownKey }) }),
      refund: async (cause) => {
        this.busy.count(cause, address);
        await windows.settle({ points, isLost: false }).catch(() => undefined);
      },
    };
  }
}
