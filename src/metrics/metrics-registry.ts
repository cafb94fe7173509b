import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Registry, type Metric } from 'prom-client';
import { Environment } from '../config/environment.js';

/** Before the name of every metric. */
export const PREFIX = 'platform_auth_';

/** How the values of several workers become one; a sum unless stated. */
type Aggregation = NonNullable<ConstructorParameters<typeof Gauge>[0]['aggregator']>;

/** Reads a gauge; undefined while the value cannot be told. */
export type ReadGauge = () => number | undefined | Promise<number | undefined>;

/** The metrics of one application. Each has a registry of its own, so that tests can run several in one process. */
@Injectable()
export class MetricsRegistry {
  readonly registry = new Registry();

  constructor({ metricsPort }: Environment) {
    // Watching the garbage collector and the event loop costs CPU: only when a scrape can come.
    if (metricsPort !== undefined) collectDefaultMetrics({ register: this.registry, prefix: PREFIX });
  }

  /** Adds a gauge that is read at each scrape, and is missing while it cannot be read. */
  addGauge(name: string, help: string, read: ReadGauge, aggregator: Aggregation = 'sum'): Metric {
    return new Gauge({
      name: PREFIX + name,
      help,
      aggregator,
      registers: [this.registry],
      async collect() {
        const value = await read();
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
  }
}
