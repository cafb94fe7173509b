import { Module } from '@nestjs/common';
import { MetricsModule } from '../metrics/metrics.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { MailModule } from '../mail/mail.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AuditJob } from './audit.job.js';
import { KeyMaterialJob } from './key-material.job.js';
import { Maintenance } from './maintenance.js';
import { PurgeJob } from './purge.job.js';
import { RetentionClock } from './retention-clock.js';
import { SealJob } from './seal.job.js';

@Module({
  imports: [
    MetricsModule,
    AuditModule,
    RevocationModule,
    TokensModule,
    SigningKeysModule,
    NodesModule,
    AppCredentialsModule,
    ThrottlingModule,
    MailModule,
    UsersModule,
    SecondFactorsModule,
  ],
  providers: [Maintenance, PurgeJob, AuditJob, SealJob, KeyMaterialJob, RetentionClock],
  exports: [PurgeJob, AuditJob, SealJob, KeyMaterialJob],
})
export class MaintenanceModule {}
