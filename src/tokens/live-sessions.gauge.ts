import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Clock } from '../common/clock.js';
import { ScrapedGauges } from '../metrics/scraped-gauges.js';
import { COUNT_LIVE_SESSIONS } from './session-statements.js';

const NAME = 'live_sessions';
const MOST_MS = 1_000;

/** How many sessions are alive, for whoever watches. Every replica counts the same ones. */
@Injectable()
export class LiveSessionsGauge {
  constructor(
    gauges: ScrapedGauges,
    private readonly dataSource: DataSource,
    private readonly clock: Clock,
  ) {
    gauges.add(NAME, 'Sessions that have neither ended nor expired.', () => this.count());
  }

  private async count(): Promise<number> {
    return this.dataSource.transaction(async (transaction) => {
      // Requests come first: a count that takes longer than this is not worth it.
      await transaction.query(`SET LOCAL statement_timeout = ${MOST_MS}`);
      const [row] = await transaction.query<{ live: number }[]>(COUNT_LIVE_SESSIONS, [this.clock.now()]);
      return row?.live ?? 0;
    });
  }
}
