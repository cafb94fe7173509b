import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { DataSource } from 'typeorm';
import { MetricsRegistry, PREFIX } from '../../foundation/metrics/metrics-registry.js';
import { OLDEST_UNREAD } from './subscriptions.service.js';

/** 0 for a service that has read all. */
export const MEASURE_LAG = `SELECT service,
    COALESCE(GREATEST(0, extract(epoch FROM now() - (SELECT time FROM (${OLDEST_UNREAD}) AS first))), 0)::float8 AS seconds
  FROM event_subscriptions AS subscribed`;

/** The metric of how far each service lags behind. The job that copies events measures it, so that a scrape reads no row. */
@Injectable()
export class EventLag {
  private readonly gauge;

  constructor(
    private readonly dataSource: DataSource,
    { registry }: MetricsRegistry,
  ) {
    this.gauge = new Gauge({
      name: `${PREFIX}events_lag_seconds`,
      help: 'Age of the oldest event that a service has not acknowledged; 0 when it has read all.',
      labelNames: ['service'],
      // `max`, because every worker measures the same.
      aggregator: 'max',
      registers: [registry],
    });
  }

  async measure(): Promise<void> {
    const lags = await this.dataSource.query<{ service: string; seconds: number }[]>(MEASURE_LAG);
    this.gauge.reset();
    for (const { service, seconds } of lags) this.gauge.set({ service }, seconds);
  }
}
