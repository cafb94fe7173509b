import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { MetricsModule } from '../metrics/metrics.module.js';
import { DatabaseUpGauge, HealthController, HealthProbe, Readiness } from './health.js';

@Module({
  imports: [TerminusModule.forRoot({ logger: false }), MetricsModule],
  controllers: [HealthController],
  providers: [Readiness, HealthProbe, DatabaseUpGauge],
  exports: [Readiness],
})
export class HealthModule {}
