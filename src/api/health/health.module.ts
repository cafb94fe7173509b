import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { HealthController } from './health.controller.js';
import { Readiness, HealthProbe } from './health-probe.js';

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [Readiness, HealthProbe],
  exports: [Readiness],
})
export class HealthModule {}
