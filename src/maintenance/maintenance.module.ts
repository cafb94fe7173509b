import { Module } from '@nestjs/common';
import { MetricsModule } from '../metrics/metrics.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { SealsModule } from '../audit/seals/audit-months.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { MailModule } from '../mail/mail.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { AuditJob, KeyMaterialJob, Maintenance, SealJob } from './maintenance.js';
import { CredentialPurge, PurgeJob, RetentionClock } from './purge.js';

@Module({
  imports: [
    MetricsModule,
    AuditModule,
    SealsModule,
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
  providers: [Maintenance, PurgeJob, CredentialPurge, AuditJob, SealJob, KeyMaterialJob, RetentionClock],
  exports: [PurgeJob, AuditJob, SealJob, KeyMaterialJob],
})
export class MaintenanceModule {}
