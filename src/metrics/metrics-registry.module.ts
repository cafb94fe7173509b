import { Module } from '@nestjs/common';
import { MetricsRegistry } from './metrics-registry.js';

/** The registry alone: for rooms with metrics of their own that commands use too, without a server and its gauges. */
@Module({ providers: [MetricsRegistry], exports: [MetricsRegistry] })
export class MetricsRegistryModule {}
