import { Module } from '@nestjs/common';
import { MetricsRegistryModule } from '../metrics/metrics-registry.module.js';
import { ActMetrics } from './act-metrics.js';
import { AuditLog } from './audit-log.js';
import { AuditPartitions } from './audit-partitions.js';
import { AuditSeals } from './audit-seals.js';
import { CountedRefusals } from './counted-refusals.js';

@Module({
  imports: [MetricsRegistryModule],
  providers: [ActMetrics, AuditLog, AuditPartitions, AuditSeals, CountedRefusals],
  exports: [AuditLog, AuditPartitions, AuditSeals, CountedRefusals],
})
export class AuditModule {}
