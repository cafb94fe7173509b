import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Registry, type Metric } from 'prom-client';
import { Environment } from '../config/environment.js';

export const PREFIX = 'platform_auth_';

/** Gauges of prom-client that linters refuse, because their names are those of counters. Their parts by type remain. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];
const CACHED_QUERY_TTL_MS = 30_000;
const CACHED_QUERY_TIMEOUT_MS = 1_000;

/** How the primary combines the values of its workers; by default a sum. */
type Aggregation = NonNullable<ConstructorParameters<typeof Gauge>[0]['aggregator']>;

/** Undefined while the value is unknown. */
type ReadGauge = () => number | undefined | Promise<number | undefined>;

/** Each application has a registry of its own, so that tests can run several in one process. */
@Injectable()
export class MetricsRegistry {
  readonly registry = new Registry();

  constructor({ metricsPort }: Environment) {
    // Collects default metrics only when a scrape is possible, because watching the garbage collector and the event
    // loop costs CPU.
    if (metricsPort === undefined) return;
    collectDefaultMetrics({ register: this.registry, prefix: PREFIX });
    for (const name of MISNAMED) this.registry.removeSingleMetric(PREFIX + name);
  }

  /** Adds a gauge that each scrape reads. It is missing while its value is unknown. */
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

/**
 * Queries at most twice a minute and waits at most one second.
 * @returns a reader; its value is undefined when the query failed
 */
export function cacheQuery<Value = number>(query: () => Promise<Value>): () => Promise<Value | undefined> {
  let value: Promise<Value | undefined> | undefined;
  let queriedAt = 0;
  return () => {
    const now = performance.now();
    if (value === undefined || now - queriedAt >= CACHED_QUERY_TTL_MS) {
      queriedAt = now;
      value = query().catch(() => undefined);
    }
    return Promise.race([value, sleep(CACHED_QUERY_TIMEOUT_MS, undefined, { ref: false })]);
  };
}
