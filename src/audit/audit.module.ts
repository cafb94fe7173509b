import { Global, Module } from '@nestjs/common';
import { AuditEvents } from './audit-events.js';
import { AuditPartitions } from './audit-partitions.js';
import { AuditSeals } from './audit-seals.js';
import { CountedRefusals } from './counted-refusals.js';

@Global()
@Module({
  providers: [AuditEvents, AuditPartitions, AuditSeals, CountedRefusals],
  exports: [AuditEvents, AuditPartitions, AuditSeals, CountedRefusals],
})
export class AuditModule {}
