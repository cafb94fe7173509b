import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { DatabaseClock } from './database.js';

/** The same difference of clocks that the verification of access tokens tolerates. */
const MAX_SKEW_SECONDS = 60;
const COMPARISON_INTERVAL_MS = 10_000;
/** A slower answer is ignored, because this process may have been suspended before or after it arrived. */
const MAX_ROUND_TRIP_MS = 10_000;
/** A `Date` cuts microseconds off. */
const TIMESTAMP_PRECISION_MS = 1;

/** The clock of this replica is wrong, so it must answer 503 in place of a verdict that depends on the time. */
export class WrongClockError extends Error {
  override readonly name = 'WrongClockError';
}

/**
 * PostgreSQL's time, which all replicas share. Between two comparisons the monotonic clock measures it, without a
 * statement, so that a jump of this machine's clock is noticed at once and moves nothing.
 */
@Injectable()
export class ComparedClock implements OnApplicationBootstrap, OnApplicationShutdown {
  /** PostgreSQL's time minus the monotonic clock; undefined until the first comparison. */
  private databaseOffsetMs: number | undefined;
  /** By how much the last comparison may err. */
  private maxErrorMs = 0;
  /** When the comparison that counts was sent. */
  private sentAtMs = -Infinity;
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

  /** How far this clock is ahead of PostgreSQL's; undefined until the first comparison. */
  get skewSeconds(): number | undefined {
    if (this.databaseOffsetMs === undefined) return undefined;
    return (this.clock.now().getTime() - this.clock.readMonotonicMs() - this.databaseOffsetMs) / 1_000;
  }

  /** PostgreSQL's time, without a statement; undefined until the first comparison. */
  databaseNow(): Date | undefined {
    const { databaseOffsetMs } = this;
    return databaseOffsetMs === undefined ? undefined : new Date(databaseOffsetMs + this.clock.readMonotonicMs());
  }

  /** While PostgreSQL does not answer, the last comparison counts. */
  get isWrong(): boolean {
    return Math.abs(this.skewSeconds ?? 0) > MAX_SKEW_SECONDS;
  }

  /**
   * The time for records of what has happened, which retention reads. This machine's clock measures PostgreSQL's time as
   * long as the comparison finds no difference, and before the first comparison.
   */
  now(): Date {
    const now = this.clock.now();
    if (this.databaseOffsetMs === undefined) return now;
    const databaseMs = this.databaseOffsetMs + this.clock.readMonotonicMs();
    return Math.abs(now.getTime() - databaseMs) <= this.maxErrorMs ? now : new Date(databaseMs);
  }

  /**
   * The time for decisions: whether a credential is valid, and how long a new one will be.
   * @throws {WrongClockError} while the clock of this machine, whose jump no comparison may have seen yet, is wrong
   */
  trustedNow(): Date {
    const now = this.now();
    // Checked after the time was read, because the clock may jump in between.
    if (this.isWrong) throw new WrongClockError("The clock of this replica differs from PostgreSQL's");
    return now;
  }

  /** @returns the time of PostgreSQL */
  async compareClocks(): Promise<Date> {
    const sentAtMs = this.clock.readMonotonicMs();
    const now = await this.databaseClock.now();
    const answeredAtMs = this.clock.readMonotonicMs();
    // PostgreSQL's time belongs to an unknown moment of the round trip; its middle limits the error to half of it. An
    // answer that a later comparison has overtaken may be from before a jump of PostgreSQL's clock.
    if (answeredAtMs - sentAtMs < MAX_ROUND_TRIP_MS && sentAtMs >= this.sentAtMs) {
      this.sentAtMs = sentAtMs;
      this.databaseOffsetMs = now.getTime() - (sentAtMs + answeredAtMs) / 2;
      this.maxErrorMs = (answeredAtMs - sentAtMs) / 2 + TIMESTAMP_PRECISION_MS;
    }
    return now;
  }
}
