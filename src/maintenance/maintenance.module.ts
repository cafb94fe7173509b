import { Module } from '@nestjs/common';
import { MetricsModule } from '../metrics/metrics.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { KeysModule } from '../keys/keys.module.js';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { AuditJob } from './audit.job.js';
import { Maintenance } from './maintenance.js';
import { PurgeJob } from './purge.job.js';
import { RetentionClock } from './retention-clock.js';
import { SealJob } from './seal.job.js';

@Module({
  imports: [MetricsModule, AuditModule, KeysModule, TokensModule, NodesModule, AppCredentialsModule, ThrottlingModule],
  providers: [Maintenance, PurgeJob, AuditJob, SealJob, RetentionClock],
  exports: [PurgeJob, AuditJob, SealJob],
})
export class MaintenanceModule {}
