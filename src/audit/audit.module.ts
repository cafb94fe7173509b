import { Global, Module } from '@nestjs/common';
import { AuditEvents } from './audit-events.js';
import { AuditPartitions } from './audit-partitions.js';
import { FailedLogins } from './failed-logins.js';

@Global()
@Module({
  providers: [AuditEvents, AuditPartitions, FailedLogins],
  exports: [AuditEvents, AuditPartitions, FailedLogins],
})
export class AuditModule {}
