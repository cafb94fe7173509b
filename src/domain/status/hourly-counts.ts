/**
 * What happened in each hour: each process writes its totals of the hour once a minute. A total replaces the one before
 * it, so a write whose answer was lost is repeated without counting twice. A process that is killed loses what it counted
 * since its last write; one that is stopped loses nothing. The hour is PostgreSQL's: that in which the minute began.
 */
import { hostname } from 'node:os';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { COUNTER_NAMES, createCounts, type Counts } from '../../foundation/common/hourly-counters.js';
import { HISTORY_DAYS } from '../../foundation/config/limits.js';
import { createId } from '../../foundation/common/ids.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import { RequestTally } from '../../foundation/metrics/request-tally.js';

const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];
export const MAX_HOURS = HISTORY_DAYS * 24;

const COLUMNS = COUNTER_NAMES.join(', ');
const WRITE = {
  name: 'hourly_counts_write',
  text: `INSERT INTO hourly_counts AS held (hour, process_id, host, clock_skew_seconds, ${COLUMNS})
    SELECT hour, $1, $2, $3, ${COLUMNS}
    FROM unnest($4::timestamptz[], ${COUNTER_NAMES.map((_, index) => `$${index + 5}::bigint[]`).join(', ')})
      AS counted (hour, ${COLUMNS})
    ON CONFLICT (hour, process_id) DO UPDATE SET seen_at = now(), clock_skew_seconds = excluded.clock_skew_seconds,
      ${COUNTER_NAMES.map((name) => `${name} = GREATEST(held.${name}, excluded.${name})`).join(', ')}`,
};
const READ = {
  name: 'hourly_counts_read',
  text: `SELECT hour, ${COUNTER_NAMES.map((name) => `COALESCE(sum(${name}), 0)::float8 AS ${name}`).join(', ')}
    FROM generate_series($1::timestamptz, $2::timestamptz, interval '1 hour') AS hours (hour)
    LEFT JOIN hourly_counts USING (hour) GROUP BY hour ORDER BY hour`,
};

export type HourCounts = { readonly hour: Date } & Readonly<Counts>;

@Injectable()
export class HourlyCounts implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly processId = createId();
  /** By the start of the hour: the totals that PostgreSQL has not confirmed yet, and the total of the present hour. */
  private readonly totals = new Map<number, Counts>();
  /** The part of the tally that the totals already include. */
  private readonly taken = createCounts();
  private hour: number | undefined;
  private lastFlush: Promise<boolean> = Promise.resolve(true);
  private timer: NodeJS.Timeout | undefined;
  private isStopped = false;

  constructor(
    private readonly tally: RequestTally,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    await this.flush();
    this.schedule();
  }

  async onApplicationShutdown(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.timer);
    await this.flush();
  }

  /** Never rejects, because the next run repeats it. @returns whether everything is written */
  flush(): Promise<boolean> {
    this.lastFlush = this.lastFlush.then(async () => {
      try {
        await this.writeTotals();
        return true;
      } catch (error) {
        this.log.warn('hourly_counts_not_written', { error: toErrorFields(error) });
        return false;
      }
    });
    return this.lastFlush;
  }

  /** @returns each of the last hours, the present one last, with what this process has counted up to now */
  async listHours(count: number): Promise<HourCounts[]> {
    await this.flush();
    const now = (await this.clock.compareClocks()).getTime();
    const last = now - (now % HOUR_MS);
    return this.database.rows<HourCounts>(READ, [new Date(last - (count - 1) * HOUR_MS), new Date(last)]);
  }

  /** At each full minute, so that a minute belongs to one hour. */
  private schedule(): void {
    if (this.isStopped) return;
    const now = this.clock.databaseNow()?.getTime() ?? 0;
    const run = (): void => void this.flush().then(() => this.schedule());
    this.timer = setTimeout(run, MINUTE_MS - (now % MINUTE_MS)).unref();
  }

  private async writeTotals(): Promise<void> {
    this.takeCounts();
    const hours = [...this.totals];
    if (hours.length === 0) return;
    const counts = COUNTER_NAMES.map((name) => hours.map(([, total]) => total[name]));
    const skew = this.clock.skewSeconds ?? 0;
    await this.database.rows(WRITE, [
      this.processId,
      hostname(),
      skew,
      hours.map(([hour]) => new Date(hour)),
      ...counts,
    ]);
    for (const [hour] of hours) if (hour !== this.hour) this.totals.delete(hour);
  }

  /** Adds what was counted since the last call to the hour of that call. */
  private takeCounts(): void {
    const now = this.clock.databaseNow()?.getTime();
    if (now === undefined) return;
    const present = now - (now % HOUR_MS);
    this.hour ??= present;
    const total = this.totals.get(this.hour) ?? createCounts();
    this.totals.set(this.hour, total);
    for (const name of COUNTER_NAMES) {
      total[name] += this.tally.counts[name] - this.taken[name];
      this.taken[name] = this.tally.counts[name];
    }
    this.hour = present;
    if (!this.totals.has(present)) this.totals.set(present, createCounts());
  }
}
