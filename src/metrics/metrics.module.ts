import { Global, Module } from '@nestjs/common';
import { MetricsServer } from './metrics-server.js';
import { RequestCounts } from './request-counts.js';
import { ScrapedGauges } from './scraped-gauges.js';

/** What people watch. */
@Global()
@Module({ providers: [RequestCounts, ScrapedGauges, MetricsServer], exports: [RequestCounts, ScrapedGauges] })
export class MetricsModule {}
