import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { MetricsRegistry, PREFIX } from './metrics-registry.js';

/** The saturation of the database pool and of log delivery, read at each scrape. */
@Injectable()
export class ServiceGauges {
  constructor(
    private readonly metrics: MetricsRegistry,
    database: Database,
    log: Log,
  ) {
    this.addDatabase(database);
    this.addLogDelivery(log);
  }

  private addDatabase(database: Database): void {
    this.metrics.addGauge('database_connections', 'Open connections of the pool.', () => database.pool.total);
    this.metrics.addGauge('database_connections_idle', 'Idle connections of the pool.', () => database.pool.idle);
    this.metrics.addGauge(
      'database_connections_limit',
      'Maximum of connections of the pool.',
      () => database.pool.limit,
    );
    this.metrics.addGauge(
      'database_connections_stalled',
      'Connections with a statement that was given up and is not answered yet.',
      () => database.pool.stalled,
    );
    this.metrics.addGauge(
      'database_requests_waiting',
      'Statements that wait for a connection.',
      () => database.pool.waiting,
    );
  }

  private addLogDelivery(log: Log): void {
    this.metrics.addGauge(
      'log_delivering',
      '1: lines are shipped to the logging service. 0: they go to the console.',
      () => (log.isDelivering === undefined ? undefined : Number(log.isDelivering)),
      // One worker that cannot deliver is worth an alert.
      'min',
    );
    this.metrics.addGauge('log_lines_waiting', 'Log lines that wait for delivery.', () => log.waitingLines);
    new Counter({
      name: `${PREFIX}log_lines_undelivered_total`,
      help: 'Log lines that were meant for the logging service and went to the console.',
      registers: [this.metrics.registry],
      collect() {
        this.reset();
        this.inc(log.undeliveredLines);
      },
    });
  }
}
