// Metrics for Prometheus on METRICS_PORT; without that variable requests are not counted. Counters are incremented when
// a request has completed, gauges are read at each scrape. Invariants: a label is never text of a caller, so the number
// of series is bounded; each application has a registry of its own.

import { Module } from '@nestjs/common';
import { MetricsServer } from './metrics-server.js';
import { MetricsRegistryModule } from './metrics-registry.module.js';
import { RequestMetrics } from './request-metrics.js';
import { RequestTally } from './request-tally.js';
import { ServiceGauges } from './service-gauges.js';

@Module({
  imports: [MetricsRegistryModule],
  providers: [RequestMetrics, RequestTally, ServiceGauges, MetricsServer],
  exports: [MetricsRegistryModule, RequestMetrics, RequestTally],
})
export class MetricsModule {}
