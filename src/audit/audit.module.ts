import { Global, Module } from '@nestjs/common';
import { AuditEvents } from './audit-events.js';
import { AuditPartitions } from './audit-partitions.js';
import { CountedRefusals } from './counted-refusals.js';

@Global()
@Module({
  providers: [AuditEvents, AuditPartitions, CountedRefusals],
  exports: [AuditEvents, AuditPartitions, CountedRefusals],
})
export class AuditModule {}
