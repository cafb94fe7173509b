import { Global, Module } from '@nestjs/common';
import { CountedRefusals } from './counted-refusals.js';
import { AuditLog } from './audit-log.js';

@Global()
@Module({ providers: [AuditLog, CountedRefusals], exports: [AuditLog, CountedRefusals] })
export class AuditModule {}
