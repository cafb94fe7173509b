import { Injectable } from '@nestjs/common';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { Environment } from '../config/environment.js';
import { ThrottleKeys } from './throttle-keys.js';
import { ThrottleWindows } from './throttle-windows.js';

const EVENT = 'user.second_factor.throttled';
/** Of six digits three codes are valid at a time: 50 guesses a week find one within a year in 0.8 % of all cases. */
const WEEKLY_LIMIT = { points: 50, seconds: 7 * 86_400 };
const TURN = { networks: [], isKnown: false };
/** How long a code waits for points in flight, which may be refunded. Then it is 503. */
const MAX_WAIT_MS = 5_000;

/** A reserved try of a code, to be settled. */
export interface CodeAttempt {
  /** Commits a wrong code. Refunds a right one, or one that was not verified. */
  settle(isWrong: boolean): Promise<void>;
}

/**
 * Counts wrong codes of one account, exactly across replicas: six digits can be guessed otherwise. The point is reserved
 * before the code is verified. It counts the account alone: a client that tries codes has presented its password.
 */
@Injectable()
export class SecondFactorThrottle {
  constructor(
    private readonly keys: ThrottleKeys,
    private readonly windows: ThrottleWindows,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait */
  async begin(userId: string, kind: 'totp' | 'recovery_code'): Promise<CodeAttempt> {
    const limit = this.environment.secondFactorLimitPerAccount;
    // Recovery codes cannot be guessed, and stay usable when the six digits are locked.
    const weekly = kind === 'totp' ? this.keys.toBudgets('second-factor-week', WEEKLY_LIMIT, [''], userId) : [];
    const budgets = [...this.keys.toBudgets('second-factor-account', limit, [''], userId), ...weekly];
    const deadline = performance.now() + MAX_WAIT_MS;
    for (;;) {
      await this.keys.refuseExhausted(EVENT, budgets);
      const { points, lacking } = await this.windows.reserve({ budgets }, TURN);
      await this.keys.refuseExhausted(EVENT, lacking);
      if (!lacking[0]) return { settle: (isWrong) => this.windows.settle({ points, isLost: isWrong }) };
      if (performance.now() > deadline) throw new ProblemException(problems.hashingBusy);
      await this.windows.awaitFreed(lacking[0]);
    }
  }
}
