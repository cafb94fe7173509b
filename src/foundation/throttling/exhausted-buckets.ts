import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { Database } from '../database/database.js';
import { ProblemException, problems, type RefusalEvent } from '../problems/problems.js';
import type { RateLimitBucket } from './rate-limit-buckets.js';

const MAX_EXHAUSTED_KEYS = 10_000;
/** Beyond this number refusals of a key are delayed, to slow down a client that waits for each response. */
const MAX_PROMPT_REFUSALS = 100;
const REFUSAL_DELAY_MS = 1_000;
const MAX_DELAYED = 1_000;
/** Beyond this number, a refusal of a key is logged only when its number is a power of two. */
const MAX_LOGGED_REFUSALS = 100;
/** How long a replica may continue to refuse after an operator removed a user's throttles. */
export const UNLOCK_CHECK_INTERVAL_MS = 1_000;
/** Each removal of throttles updates this row, so that every replica notices it. */
export const UNLOCK_KEY = 'unlocked';
const READ_UNLOCK = {
  name: 'throttle_read_unlock',
  text: `SELECT window_start::text AS at FROM throttle_windows WHERE key = '${UNLOCK_KEY}'`,
};

/**
 * The exhausted buckets that this replica knows. It refuses their calls without a statement, and reads at most once a
 * second whether an operator has removed a user's throttles.
 */
@Injectable()
export class ExhaustedBuckets {
  /** The number of refusals of each exhausted key, until its window ends. */
  private readonly refusals = new LRUCache<string, number>({ max: MAX_EXHAUSTED_KEYS });
  private delayed = 0;
  private unlockedAt: string | undefined;
  private checkedAtMs = -Infinity;
  private checking = Promise.resolve();

  constructor(private readonly database: Database) {}

  hasAny(buckets: readonly RateLimitBucket[]): boolean {
    return buckets.some(({ key }) => this.refusals.has(key));
  }

  /** @param msLeft milliseconds until the window of the bucket ends */
  remember({ key }: RateLimitBucket, msLeft: number): void {
    if (msLeft > 0 && !this.refusals.has(key)) this.refusals.set(key, 0, { ttl: Math.ceil(msLeft) });
  }

  /** @throws {ProblemException} too_many_requests when one of the buckets is known to be exhausted */
  async refuseAny(buckets: readonly RateLimitBucket[]): Promise<void> {
    if (this.findLongest(buckets)?.bucket.isOfAccount) await this.forgetUnlocked();
    const longest = this.findLongest(buckets);
    if (!longest) return;
    const { bucket, msLeft } = longest;
    const count = (this.refusals.get(bucket.key) ?? 0) + 1;
    this.refusals.set(bucket.key, count, { noUpdateTTL: true });
    if (count > MAX_PROMPT_REFUSALS && this.delayed < MAX_DELAYED) {
      this.delayed += 1;
      await sleep(REFUSAL_DELAY_MS, undefined, { ref: false });
      this.delayed -= 1;
    }
    throw new ProblemException(problems.tooManyRequests, {
      refusal: {
        event: bucket.event,
        reason: bucket.name,
        ...(count > MAX_LOGGED_REFUSALS && { count }),
      } as RefusalEvent,
      isLogged: count <= MAX_LOGGED_REFUSALS || Number.isInteger(Math.log2(count)),
      headers: {
        'Retry-After': String(toSeconds(msLeft)),
        ...toRateLimitHeaders(bucket, { consumed: bucket.limit.points, ms_left: msLeft }),
      },
    });
  }

  /** Called after an operator removed rows: the next read of each row tells again whether its bucket is exhausted. */
  forgetAll(): void {
    this.refusals.clear();
  }

  private findLongest(buckets: readonly RateLimitBucket[]) {
    const waits = buckets.map((bucket) => ({ bucket, msLeft: this.refusals.getRemainingTTL(bucket.key) }));
    return waits.filter(({ msLeft }) => msLeft > 0).sort((one, other) => other.msLeft - one.msLeft)[0];
  }

  /** Single flight. When the read fails, the known buckets stay exhausted. */
  private forgetUnlocked(): Promise<void> {
    if (performance.now() < this.checkedAtMs + UNLOCK_CHECK_INTERVAL_MS) return this.checking;
    this.checkedAtMs = performance.now();
    this.checking = this.database.rows<{ at: string }>(READ_UNLOCK, []).then(
      ([row]) => {
        if (row?.at !== this.unlockedAt) this.forgetAll();
        this.unlockedAt = row?.at;
      },
      () => undefined,
    );
    return this.checking;
  }
}

interface WindowState {
  readonly consumed: number;
  readonly ms_left: number;
}

/** The header fields of draft-ietf-httpapi-ratelimit-headers. */
export function toRateLimitHeaders({ name, limit }: RateLimitBucket, state: WindowState): Record<string, string> {
  return {
    'RateLimit-Policy': `"${name}";q=${limit.points};w=${limit.seconds}`,
    RateLimit: `"${name}";r=${limit.points - state.consumed};t=${toSeconds(state.ms_left)}`,
  };
}

function toSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
