import { Injectable } from '@nestjs/common';
import type { Turn } from '../common/keyed-queue.js';
import { toNetworks } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { Budgets } from './budgets.js';
import { BusyThrottle } from './busy-throttle.js';
import { ExhaustedBudgets } from './exhausted-budgets.js';
import { toExhausted, type ExhaustedLimit } from './exhausted-limit.js';
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
 * (enumeration). A network where the account logged in recently is known: there only the first limit can refuse, so that
 * an attacker elsewhere does not lock the owner out.
 */
@Injectable()
export class LoginThrottle {
  constructor(
    private readonly budgets: Budgets,
    private readonly exhausted: ExhaustedBudgets,
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

  /**
   * For operators: which limits refuse a login now, without counting one.
   * @param account canonical e-mail address
   * @param address of a client; null: only the limit of the account at addresses where it is not known
   */
  async listExhausted(account: string, address: string | null): Promise<ExhaustedLimit[]> {
    const { budgets, knownKey } = this.toRequest(account, address);
    const open = await this.windows.read([...budgets.map(({ key }) => key), knownKey]);
    const isKnown = address !== null && open.has(knownKey);
    const asked = address === null ? budgets.filter(({ name }) => name === 'login-account') : budgets;
    return asked.slice(0, isKnown ? 1 : undefined).flatMap((budget) => toExhausted(budget, open.get(budget.key)));
  }

  private toRequest(account: string, address: string | null) {
    const { environment } = this;
    const networks = toNetworks(address);
    const atNetworks = { account, networks };
    const budgets = [
      ...this.budgets.create('login-account-address', environment.loginLimitPerAccountAndAddress, atNetworks),
      ...this.budgets.create('login-account', environment.loginLimitPerAccount, { account }),
      ...this.budgets.create('login-address', environment.loginLimitPerAddress, { networks }),
    ];
    const [{ key: knownKey }] = this.budgets.create('known-address', { points: 1, seconds: 0 }, atNetworks);
    return { networks, budgets, knownKey };
  }

  private async reserve(account: string, address: string | null): Promise<Attempt> {
    const { exhausted, windows } = this;
    const { networks, budgets, knownKey } = this.toRequest(account, address);
    const turn = { networks, isKnown: false };
    const timed = { event: EVENT, request: { budgets, knownKey }, turn, maxWaitMs: MAX_WAIT_MS } as const;
    const { isKnown, points } = await windows.reserveInTime(timed, async () => {
      await exhausted.refuseAny(EVENT, budgets.slice(0, 1));
      // Without a reservation, so that a flood that is over its limits writes no row.
      if (exhausted.hasAny(budgets) && !(await windows.reserve({ budgets: [], knownKey }, turn)).isKnown)
        await exhausted.refuseAny(EVENT, budgets);
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
