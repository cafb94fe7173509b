import { Global, Module } from '@nestjs/common';
import { MetricsRegistry } from './metrics-registry.js';

/** The registry without its endpoint, because the command line loads rooms that have gauges but serves no metrics. */
@Global()
@Module({ providers: [MetricsRegistry], exports: [MetricsRegistry] })
export class MetricsRegistryModule {}
