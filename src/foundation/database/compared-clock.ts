import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { DatabaseClock } from './database.js';

/** The difference of clocks that the times of access tokens tolerate as well. */
const MAX_SKEW_SECONDS = 60;
const COMPARISON_INTERVAL_MS = 10_000;
/** A slower answer measures nothing: this process may have been frozen before or after it arrived. */
const MAX_ROUND_TRIP_MS = 10_000;

/** What the time decides is not a verdict: a 503. */
export class WrongClockError extends Error {
  override readonly name = 'WrongClockError';
}

/**
 * The clock of this replica, compared with PostgreSQL's, which all replicas share. Between two comparisons the monotonic
 * clock measures PostgreSQL's time, so that a jump of the wall clock is noticed at once, and without a statement.
 */
@Injectable()
export class ComparedClock implements OnApplicationBootstrap, OnApplicationShutdown {
  /** PostgreSQL's time minus that of the monotonic clock. Undefined until the first comparison. */
  private databaseOffsetMs: number | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly databaseClock: DatabaseClock,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const compare = (): Promise<unknown> => this.compareClocks().catch(() => undefined);
    await compare();
    this.timer = setInterval(() => void compare(), COMPARISON_INTERVAL_MS).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  /** By how much this clock is ahead of PostgreSQL's; undefined until they were compared. */
  get skewSeconds(): number | undefined {
    if (this.databaseOffsetMs === undefined) return undefined;
    return (this.clock.now().getTime() - this.clock.monotonicMs() - this.databaseOffsetMs) / 1_000;
  }

  /** While PostgreSQL cannot be asked, the last comparison counts. */
  get isWrong(): boolean {
    return Math.abs(this.skewSeconds ?? 0) > MAX_SKEW_SECONDS;
  }

  /** For records of what has happened. */
  now(): Date {
    return this.clock.now();
  }

  /** For what the time decides: whether a credential is valid, and for how long a new one will be. @throws {WrongClockError} */
  trustedNow(): Date {
    const now = this.clock.now();
    // Judged after it was read, because the clock may jump in between.
    if (this.isWrong) throw new WrongClockError("The clock of this replica differs from PostgreSQL's");
    return now;
  }

  /** @returns the time of PostgreSQL */
  async compareClocks(): Promise<Date> {
    const sentAtMs = this.clock.monotonicMs();
    const now = await this.databaseClock.now();
    const answeredAtMs = this.clock.monotonicMs();
    // The statement may have waited for a connection, so the time is that of the middle.
    if (answeredAtMs - sentAtMs < MAX_ROUND_TRIP_MS)
      this.databaseOffsetMs = now.getTime() - (sentAtMs + answeredAtMs) / 2;
    return now;
  }
}
