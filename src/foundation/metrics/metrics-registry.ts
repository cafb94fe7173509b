import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Registry, type Metric } from 'prom-client';
import { Environment } from '../config/environment.js';

export const PREFIX = 'platform_auth_';

/** Gauges of prom-client with names of counters, which linters of metrics refuse. Their parts by type remain. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];
const SLOW_GAUGE_TTL_MS = 30_000;
const SLOW_GAUGE_TIMEOUT_MS = 1_000;

/** How the values of several workers become one; a sum by default. */
type Aggregation = NonNullable<ConstructorParameters<typeof Gauge>[0]['aggregator']>;

/** Reads the value of a gauge; undefined while it is unknown. */
type ReadGauge = () => number | undefined | Promise<number | undefined>;

/** Each application has a registry of its own, so that tests can run several in one process. */
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

/** Queries at most twice a minute, and waits at most one second; undefined when the query failed. */
export function createSlowGauge<Value = number>(query: () => Promise<Value>): () => Promise<Value | undefined> {
  let value: Promise<Value | undefined> | undefined;
  let queriedAt = 0;
  return () => {
    const now = performance.now();
    if (value === undefined || now - queriedAt >= SLOW_GAUGE_TTL_MS) {
      queriedAt = now;
      value = query().catch(() => undefined);
    }
    return Promise.race([value, sleep(SLOW_GAUGE_TIMEOUT_MS, undefined, { ref: false })]);
  };
}
