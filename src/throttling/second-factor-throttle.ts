import { Injectable } from '@nestjs/common';
import { toNetworks } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { Budgets, type Budget } from './budgets.js';
import { ExhaustedBudgets } from './exhausted-budgets.js';
import { toExhausted, type ExhaustedLimit } from './exhausted-limit.js';
import { ThrottleWindows } from './throttle-windows.js';

const EVENT = 'user.second_factor.throttled';
/** Of six digits three codes are valid at a time: 50 guesses a week find one within a year in 0.8 % of all cases. */
const WEEKLY_LIMIT = { points: 50, seconds: 7 * 86_400 };
/** How long a code waits for points in flight, which may be refunded. Then it is 503. */
const MAX_WAIT_MS = 5_000;

/** What a code is counted by, and whose place in the queue it waits in. */
export interface CodeAttempt {
  readonly userId: string;
  readonly method: 'totp' | 'recovery_code';
  /** Of the client. Null: unknown. */
  readonly address: string | null;
}

/**
 * Counts wrong codes of one account, exactly across replicas: six digits can be guessed otherwise. The point is reserved
 * before the code is verified. It counts the account alone: a client that tries codes has presented its password.
 */
@Injectable()
export class SecondFactorThrottle {
  constructor(
    private readonly budgets: Budgets,
    private readonly exhausted: ExhaustedBudgets,
    private readonly windows: ThrottleWindows,
    private readonly environment: Environment,
  ) {}

  /**
   * Reserves a try, verifies the code and settles the try by the verdict. One that could not be verified is refunded.
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait
   */
  async attempt<Verdict extends { readonly valid: boolean }>(
    { userId, method, address }: CodeAttempt,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    const budgets = this.createBudgets(userId, method);
    const turn = { networks: toNetworks(address), isKnown: false };
    const timed = { event: EVENT, request: { budgets }, turn, maxWaitMs: MAX_WAIT_MS } as const;
    const { points } = await this.windows.reserveInTime(timed, () => this.exhausted.refuseAny(EVENT, budgets));
    // If it fails, the reservation expires after a minute.
    const refund = () => this.windows.settle({ points, isLost: false }).catch(() => undefined);
    const verdict = await verify().catch(async (error: unknown) => {
      await refund();
      throw error;
    });
    // An accepted code is used up: counters that cannot be reached must not void it.
    await (verdict.valid ? refund() : this.windows.settle({ points, isLost: true }));
    return verdict;
  }

  /** For operators: which limits refuse a code of this method now, without counting one. */
  async listExhausted(userId: string, method: CodeAttempt['method']): Promise<ExhaustedLimit[]> {
    const budgets = this.createBudgets(userId, method);
    const open = await this.windows.read(budgets.map(({ key }) => key));
    return budgets.flatMap((budget) => toExhausted(budget, open.get(budget.key)));
  }

  private createBudgets(account: string, method: CodeAttempt['method']): Budget[] {
    const limit = this.environment.secondFactorLimitPerAccount;
    // Recovery codes cannot be guessed: they are usable while the six digits are locked for the week.
    const weekly = method === 'totp' ? this.budgets.create('second-factor-week', WEEKLY_LIMIT, { account }) : [];
    return [...this.budgets.create('second-factor-account', limit, { account }), ...weekly];
  }
}
