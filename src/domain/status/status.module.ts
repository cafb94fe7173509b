import { Module } from '@nestjs/common';
import { MetricsModule } from '../../foundation/metrics/metrics.module.js';
import { EventsModule } from '../events/events.module.js';
import { MaintenanceModule } from '../maintenance/maintenance.module.js';
import { ExpiringKeysGauge } from './expiring-keys.js';
import { Findings } from './findings.js';
import { Guesses } from './guesses.js';
import { HourlyCounts } from './hourly-counts.js';
import { VerifierPolls } from './verifier-polls.js';

@Module({
  imports: [MetricsModule, MaintenanceModule, EventsModule],
  providers: [HourlyCounts, Guesses, Findings, ExpiringKeysGauge, VerifierPolls],
  exports: [HourlyCounts, Findings, VerifierPolls],
})
export class StatusModule {}
