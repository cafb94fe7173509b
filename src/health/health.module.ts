// Health checks for load balancers and orchestrators: `/health` (ready to serve) and `/health/live` (the process runs).
// A replica is ready when PostgreSQL answers and no stop has begun; an outage of the logging service only degrades it.

import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { DatabaseUpGauge } from './database-up.gauge.js';
import { MetricsModule } from '../metrics/metrics.module.js';
import { HealthController } from './health.controller.js';
import { Readiness } from './readiness.js';

@Module({
  imports: [TerminusModule.forRoot({ logger: false }), MetricsModule],
  controllers: [HealthController],
  providers: [Readiness, DatabaseUpGauge],
  exports: [Readiness],
})
export class HealthModule {}
