import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Clock } from '../common/clock.js';
import { MetricsRegistry, createSlowGauge } from '../metrics/metrics-registry.js';
import { COUNT_LIVE_SESSIONS } from './session-statements.js';

const NAME = 'live_sessions';
const STATEMENT_TIMEOUT_MS = 1_000;

/** The number of live sessions. Every replica counts the same rows, so aggregate by maximum, not by sum. */
@Injectable()
export class LiveSessionsGauge {
  constructor(
    metrics: MetricsRegistry,
    private readonly dataSource: DataSource,
    private readonly clock: Clock,
  ) {
    const count = createSlowGauge(() => this.count());
    metrics.addGauge(NAME, 'Sessions that have neither ended nor expired.', count, 'max');
  }

  private async count(): Promise<number> {
    return this.dataSource.transaction(async (transaction) => {
      // A slow count must not hold a connection that requests need.
      await transaction.query(`SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
      const [row] = await transaction.query<{ live: number }[]>(COUNT_LIVE_SESSIONS, [this.clock.now()]);
      return row?.live ?? 0;
    });
  }
}
