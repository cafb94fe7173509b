import { Global, Module } from '@nestjs/common';
import { MetricsRegistry } from './metrics-registry.js';

/** The registry alone, for rooms that the command line uses too: it serves no metrics. */
@Global()
@Module({ providers: [MetricsRegistry], exports: [MetricsRegistry] })
export class MetricsRegistryModule {}
