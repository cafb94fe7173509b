import { Module } from '@nestjs/common';
import { MetricsModule } from '../../foundation/metrics/metrics.module.js';
import { HourlyCounts } from './hourly-counts.js';

@Module({ imports: [MetricsModule], providers: [HourlyCounts], exports: [HourlyCounts] })
export class StatusModule {}
