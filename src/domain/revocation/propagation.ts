// The wait between the commit of a revocation and its response. A promise is the time for which a replica may answer
// from its cache, or a verifier may use an answer, without asking again. Each process announces its longest promise
// before it gives the first (lease-announcement.ts), and each revoking call waits for the longest announced one.
// Invariant: when the call has answered, every promise from before its commit is over.

import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { MAX_LEASE_MS } from '../../foundation/config/limits.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import { ProblemException } from '../../foundation/problems/problems.js';

/** Allows for the clocks of two machines to differ in rate. */
const CLOCK_RATE_MARGIN = 0.02;
/** Allows for a timer to fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

const LONGEST_PROMISE: Statement = {
  name: 'replica_leases_longest',
  text: `SELECT COALESCE(max(lease_ms), 0) AS longest FROM replica_leases
    WHERE seen_at > now() - interval '60 seconds'`,
};

/** @returns how long a revoking call waits, so that every promise of this length is over when it answers */
export function computeWaitMs(promiseMs: number): number {
  return promiseMs === 0 ? 0 : Math.ceil(promiseMs * (1 + CLOCK_RATE_MARGIN) + TIMER_MARGIN_MS);
}

@Injectable()
export class Propagation {
  private currentRead: Promise<unknown> = Promise.resolve();
  private nextRead: Promise<number> | undefined;

  constructor(
    private readonly database: Database,
    private readonly log: Log,
  ) {}

  /** To be called after the commit. Later promises are harmless, because their replicas read after the commit. */
  async awaitPropagation(): Promise<void> {
    const waitMs = computeWaitMs(await this.joinNextRead());
    if (waitMs > 0) await sleep(waitMs);
  }

  /**
   * Runs an act that revokes a key, a session or a membership, and awaits propagation. A refused act waits too, because
   * the earlier call that did the act may still be waiting. 429 and 503 are not verdicts and do not wait.
   * @param waitsOnSuccess false for an act that revokes nothing: only its refusal waits
   */
  async propagateAfter<Result>(act: () => Promise<Result>, { waitsOnSuccess = true } = {}): Promise<Result> {
    try {
      const result = await act();
      if (waitsOnSuccess) await this.awaitPropagation();
      return result;
    } catch (error) {
      const status = error instanceof ProblemException ? error.problem.status : 503;
      if (status !== 429 && status < 500) await this.awaitPropagation();
      throw error;
    }
  }

  /**
   * Calls that arrive during a read share the next one, which begins after their commits. One read at a time, so that
   * while the database stalls, revoking calls hold a single connection of the pool.
   */
  private joinNextRead(): Promise<number> {
    this.nextRead ??= this.currentRead.then(() => {
      this.nextRead = undefined;
      const read = this.readLongestPromiseMs();
      this.currentRead = read;
      return read;
    });
    return this.nextRead;
  }

  /**
   * Assumes the longest possible promise when the announcements cannot be read. A 503 would be wrong, because the
   * revocation is committed.
   */
  private async readLongestPromiseMs(): Promise<number> {
    try {
      return (await this.database.row<{ longest: number }>(LONGEST_PROMISE, []))?.longest ?? 0;
    } catch (error) {
      this.log.warn('leases_not_read', { error: toErrorFields(error) });
      return MAX_LEASE_MS;
    }
  }
}
