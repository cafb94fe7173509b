import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Registry, type Metric } from 'prom-client';
import { Environment } from '../config/environment.js';

/** Prefix of the name of every metric. */
export const PREFIX = 'platform_auth_';

/** Gauges of prom-client that are named like counters, which linters refuse. Their parts by type are exported as well. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** How the values of several workers are aggregated; a sum by default. */
type Aggregation = NonNullable<ConstructorParameters<typeof Gauge>[0]['aggregator']>;

/** Reads the value of a gauge; undefined while it is unknown. */
export type ReadGauge = () => number | undefined | Promise<number | undefined>;

/** The metrics of one application, in a registry of its own, so that tests can run several in one process. */
@Injectable()
export class MetricsRegistry {
  readonly registry = new Registry();

  constructor({ metricsPort }: Environment) {
    // Watching the garbage collector and the event loop costs CPU, so only when a scrape is possible.
    if (metricsPort === undefined) return;
    collectDefaultMetrics({ register: this.registry, prefix: PREFIX });
    for (const name of MISNAMED) this.registry.removeSingleMetric(PREFIX + name);
  }

  /** Adds a gauge that is read at each scrape, and is missing while its value is unknown. */
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
