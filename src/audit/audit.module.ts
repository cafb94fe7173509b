import { Module } from '@nestjs/common';
import { AuditLog } from './audit-log.js';
import { AuditPartitions } from './audit-partitions.js';
import { AuditSeals } from './audit-seals.js';
import { CountedRefusals } from './counted-refusals.js';

@Module({
  providers: [AuditLog, AuditPartitions, AuditSeals, CountedRefusals],
  exports: [AuditLog, AuditPartitions, AuditSeals, CountedRefusals],
})
export class AuditModule {}
