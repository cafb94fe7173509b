import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { MetricsRegistry, PREFIX } from './metrics-registry.js';

/** Gauges of saturation: the database pool and log delivery. */
@Injectable()
export class ServiceGauges {
  constructor(metrics: MetricsRegistry, database: Database, log: Log) {
    const stalled = 'Connections with a statement that was given up and is not answered yet.';
    const waiting = 'Statements that wait for a connection.';
    metrics.addGauge('database_connections', 'Open connections of the pool.', () => database.pool.total);
    metrics.addGauge('database_connections_idle', 'Idle connections of the pool.', () => database.pool.idle);
    metrics.addGauge('database_connections_limit', 'Maximum of connections of the pool.', () => database.pool.limit);
    metrics.addGauge('database_connections_stalled', stalled, () => database.pool.stalled);
    metrics.addGauge('database_requests_waiting', waiting, () => database.pool.waiting);
    metrics.addGauge('log_lines_waiting', 'Log lines that wait for delivery.', () => log.waitingLines);
    metrics.addGauge(
      'log_delivering',
      '1: lines are shipped to the logging service. 0: they go to the console.',
      () => (log.isDelivering === undefined ? undefined : Number(log.isDelivering)),
      // Takes the minimum of all workers, so that one worker that cannot deliver raises the alert.
      'min',
    );
    new Counter({
      name: `${PREFIX}log_lines_undelivered_total`,
      help: 'Log lines that were meant for the logging service and went to the console.',
      registers: [metrics.registry],
      collect() {
        this.reset();
        this.inc(log.undeliveredLines);
      },
    });
  }
}
