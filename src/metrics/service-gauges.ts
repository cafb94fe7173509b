import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { MetricsRegistry, PREFIX, type ReadGauge } from './metrics-registry.js';

/** The saturation of the database pool and of log delivery, read at each scrape. */
@Injectable()
export class ServiceGauges {
  constructor(metrics: MetricsRegistry, database: Database, log: Log) {
    const gauges: [name: string, help: string, read: ReadGauge][] = [
      ['database_connections', 'Open connections of the pool.', () => database.pool.total],
      ['database_connections_idle', 'Idle connections of the pool.', () => database.pool.idle],
      ['database_connections_limit', 'Maximum of connections of the pool.', () => database.pool.limit],
      [
        'database_connections_stalled',
        'Connections with a statement that was given up and is not answered yet.',
        () => database.pool.stalled,
      ],
      ['database_requests_waiting', 'Statements that wait for a connection.', () => database.pool.waiting],
      ['log_lines_waiting', 'Log lines that wait for delivery.', () => log.waitingLines],
    ];
    for (const [name, help, read] of gauges) metrics.addGauge(name, help, read);
    metrics.addGauge(
      'log_delivering',
      '1: lines are shipped to the logging service. 0: they go to the console.',
      () => (log.isDelivering === undefined ? undefined : Number(log.isDelivering)),
      // The minimum of all workers, so that one that cannot deliver raises an alert.
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
