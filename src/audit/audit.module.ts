import { Module } from '@nestjs/common';
import { MetricsRegistryModule } from '../metrics/metrics-registry.js';
import { AuditLog } from './audit-log.js';
import { CountedRefusals } from './counted-refusals.js';

@Module({
  imports: [MetricsRegistryModule],
  providers: [AuditLog, CountedRefusals],
  exports: [AuditLog, CountedRefusals],
})
export class AuditModule {}
