import { LRUCache } from 'lru-cache';
import type { RateLimiterRes, RateLimiterStoreAbstract } from 'rate-limiter-flexible';
import type { Limit } from '../config/limits.js';
import { counted, type CounterStore } from './counter-store.js';
import { Gathering } from './gathering.js';

const MOST_REMEMBERED = 10_000;
/** Between the clocks of two replicas, at most. */
const MOST_SKEW_MS = 60_000;
const MS_PER_SECOND = 1_000;

/** A point taken from a key's budget, within it or beyond. */
export interface Reservation {
  readonly key: string;
  readonly isWithin: boolean;
  readonly remaining: number;
  /** End of the window, on the monotonic clock. */
  readonly endsAtMs: number;
}

/** The points that a key may spend in a window, one for each try, in one atomic step of the store. */
export class Budget {
  protected readonly reserved: RateLimiterStoreAbstract;
  private readonly reservations = new Gathering((key, points) => this.take(key, points));
  /** Keys that have lost everything until their window ends: refused without asking the store. */
  private readonly exhausted = new LRUCache<string, true>({ max: MOST_REMEMBERED });

  constructor(
    store: CounterStore,
    readonly name: string,
    readonly limit: Limit,
  ) {
    this.reserved = store.counter(name, limit);
  }

  /** @returns milliseconds until the window ends, if this replica knows that nothing is left; otherwise 0 */
  exhaustedForMs(key: string): number {
    return this.exhausted.getRemainingTTL(key);
  }

  async reserve(key: string): Promise<Reservation> {
    const { answer, behind } = await this.reservations.join(key);
    const taken = answer.consumedPoints - behind;
    const { points } = this.limit;
    const endsAtMs = performance.now() + answer.msBeforeNext;
    return { key, isWithin: taken <= points, remaining: Math.max(0, points - taken), endsAtMs };
  }

  rememberExhausted(key: string, endsAtMs: number): void {
    this.exhausted.set(key, true, { ttl: Math.max(1, Math.ceil(endsAtMs - performance.now())) });
  }

  protected async startAnew(key: string): Promise<void> {
    await this.reserved.delete(key);
  }

  private async take(key: string, points: number): Promise<RateLimiterRes> {
    const count = await counted(this.reserved.penalty(key, points));
    if (count.msBeforeNext <= this.limit.seconds * MS_PER_SECOND + MOST_SKEW_MS) return count;
    // A replica whose clock was far ahead wrote it. Nobody shall wait for that time to come.
    await counted(this.startAnew(key));
    return counted(this.reserved.penalty(key, points));
  }
}

/**
 * The points that a key may lose in a window. Each try reserves one before it costs anything, and gives it back unless
 * it was a wrong guess: so never more points are lost than there are, however many tries run side by side on however
 * many replicas.
 */
export class GuessBudget extends Budget {
  /** Of the reserved points those that will not come back. What is full but not lost is only in use, and worth waiting for. */
  private readonly lost: RateLimiterStoreAbstract;

  constructor(store: CounterStore, name: string, limit: Limit) {
    super(store, name, limit);
    this.lost = store.counter(`${name}.lost`, limit);
  }

  /** A point of a window that is over is gone with it: given back to the next one, it would be one too many there. */
  async giveBack({ key, endsAtMs }: Reservation): Promise<void> {
    if (performance.now() < endsAtMs) await counted(this.reserved.reward(key));
  }

  /**
   * In whole seconds, rounded down: what was lost in a window must not be there still when the next one loses. In the
   * last second the reserved points alone are enough: what they hold up is free when it is over.
   */
  async lose({ key, endsAtMs }: Reservation): Promise<void> {
    const customDuration = Math.floor((endsAtMs - performance.now()) / MS_PER_SECOND);
    if (customDuration > 0) await counted(this.lost.penalty(key, 1, { customDuration }));
  }

  /** Whether a reservation beyond the budget is so because everything is lost, and not merely in use. */
  async isExhausted({ key, endsAtMs }: Reservation): Promise<boolean> {
    const lost = await counted(this.lost.get(key));
    if ((lost?.consumedPoints ?? 0) < this.limit.points) return false;
    this.rememberExhausted(key, endsAtMs);
    return true;
  }

  protected override async startAnew(key: string): Promise<void> {
    await Promise.all([super.startAnew(key), this.lost.delete(key)]);
  }
}
