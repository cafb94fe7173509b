import { Injectable } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { DatabaseClock } from '../database/database-clock.js';
import { Log } from '../logging/log.js';
import { MetricsRegistry } from '../metrics/metrics-registry.js';
import { createSlowGauge } from '../metrics/slow-gauge.js';

const MAX_SKEW_SECONDS = 60;

/**
 * The clock for retention: PostgreSQL's. Fails safe: while it and the clock of this replica disagree, one of them is wrong,
 * and this replica deletes nothing.
 */
@Injectable()
export class RetentionClock {
  private isSkewed = false;

  constructor(
    private readonly database: DatabaseClock,
    private readonly clock: Clock,
    private readonly log: Log,
    metrics: MetricsRegistry,
  ) {
    const help = 'Seconds by which the clock of this replica is ahead of the clock of PostgreSQL.';
    const skew = createSlowGauge(async () => (await this.compare()).skewSeconds);
    // Workers share the clock of their machine.
    metrics.addGauge('clock_skew_seconds', help, skew, 'max');
  }

  /** @returns the time of PostgreSQL, or undefined while the two clocks differ by more than a minute */
  async now(): Promise<Date | undefined> {
    const { now, skewSeconds } = await this.compare();
    const isSkewed = Math.abs(skewSeconds) > MAX_SKEW_SECONDS;
    const fields = { skew_seconds: Math.round(skewSeconds) };
    if (isSkewed && !this.isSkewed) this.log.warn('clock_skewed_nothing_is_deleted', fields);
    if (!isSkewed && this.isSkewed) this.log.info('clock_agrees_again', fields);
    this.isSkewed = isSkewed;
    return isSkewed ? undefined : now;
  }

  /** The query may have waited for a connection, so its time is compared with the mean of before and after. */
  private async compare(): Promise<{ now: Date; skewSeconds: number }> {
    const before = this.clock.now().getTime();
    const now = await this.database.now();
    const after = this.clock.now().getTime();
    return { now, skewSeconds: ((before + after) / 2 - now.getTime()) / 1_000 };
  }
}
