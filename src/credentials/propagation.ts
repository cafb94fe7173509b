import { setTimeout as sleep } from 'node:timers/promises';
import { ProblemException } from '../common/problem.exception.js';
import { MAX_LEASE_MS, computeRevocationWaitMs } from '../config/lease.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';

const LONGEST_LEASE: Statement = {
  name: 'replica_leases_longest',
  text: `SELECT COALESCE(max(lease_ms), 0) AS longest FROM replica_leases WHERE seen_at > now() - interval '60 seconds'`,
};

/** The wait between the commit of a revocation and its answer: after it no replica accepts the key from its cache. */
export class Propagation {
  private isTooShort = false;

  /** @param waitMs the least wait: for replicas that do not announce their lease */
  constructor(
    private readonly waitMs: number,
    private readonly database: Database,
    private readonly log: Log,
  ) {}

  /**
   * To be awaited after the commit. The leases are read after it too: a replica that announces one later reads every key
   * after the commit.
   */
  async awaitPropagation(): Promise<void> {
    const needed = computeRevocationWaitMs(await this.longestLeaseMs());
    if (needed > this.waitMs && !this.isTooShort) this.log.warn('revocation_wait_too_short', { delay_ms: needed });
    this.isTooShort = needed > this.waitMs;
    const waitMs = Math.max(needed, this.waitMs);
    if (waitMs > 0) await sleep(waitMs);
  }

  /**
   * Acts, and waits. Also when the act is refused: the refusal may say that the key is dead already, and the call that
   * ended it may still be waiting.
   */
  async after<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = await this.orRefusal(act);
    await this.awaitPropagation();
    if (result instanceof ProblemException) throw result;
    return result;
  }

  /** The same for an act that ends no key: only a refusal waits. */
  async afterRefusal<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = await this.orRefusal(act);
    if (!(result instanceof ProblemException)) return result;
    await this.awaitPropagation();
    throw result;
  }

  private async orRefusal<Result>(act: () => Promise<Result>): Promise<Result | ProblemException> {
    return act().catch((error: unknown) => {
      if (error instanceof ProblemException) return error;
      throw error;
    });
  }

  /** The revocation is committed, so it is not answered with 503: without the leases the wait is for the longest possible. */
  private async longestLeaseMs(): Promise<number> {
    try {
      return (await this.database.row<{ longest: number }>(LONGEST_LEASE, []))?.longest ?? 0;
    } catch (error) {
      this.log.warn('leases_not_read', { error: toErrorFields(error) });
      return MAX_LEASE_MS;
    }
  }
}
