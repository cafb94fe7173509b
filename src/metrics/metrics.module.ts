import { Global, Module } from '@nestjs/common';
import { MetricsRegistry } from './metrics-registry.js';
import { MetricsServer } from './metrics-server.js';
import { RequestMetrics } from './request-metrics.js';
import { ServiceGauges } from './service-gauges.js';

@Global()
@Module({
  providers: [MetricsRegistry, RequestMetrics, ServiceGauges, MetricsServer],
  exports: [MetricsRegistry, RequestMetrics],
})
export class MetricsModule {}
