import { Global, Module } from '@nestjs/common';
import { MetricsRegistryModule } from '../metrics/metrics-registry.js';
import { AuditLog } from './audit-log.js';
import { CountedRefusals } from './counted-refusals.js';

@Global()
@Module({
  imports: [MetricsRegistryModule],
  providers: [AuditLog, CountedRefusals],
  exports: [AuditLog, CountedRefusals],
})
export class AuditModule {}
