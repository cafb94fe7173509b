import { Global, Module } from '@nestjs/common';
import { AuditEvents } from './audit-events.js';
import { AuditPartitions } from './audit-partitions.js';
import { AuditSeals } from './audit-seals.js';
import { FailedLogins } from './failed-logins.js';

@Global()
@Module({
  providers: [AuditEvents, AuditPartitions, AuditSeals, FailedLogins],
  exports: [AuditEvents, AuditPartitions, AuditSeals, FailedLogins],
})
export class AuditModule {}
