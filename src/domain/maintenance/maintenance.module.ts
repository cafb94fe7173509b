import { Module } from '@nestjs/common';
import { SecondFactorsModule } from '../second-factors/second-factors.module.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { BackgroundWork } from './background-work.js';
import { MailModule } from '../mail/mail.module.js';
import { EventsModule } from '../events/events.module.js';
import { SealsModule } from '../audit/seals/seals.module.js';
import { Maintenance, PurgeJob, AuditJob, SealJob, KeyMaterialJob, RetentionClock } from './jobs.js';

@Module({
  imports: [SealsModule, EventsModule, SigningKeysModule, MailModule, SecondFactorsModule],
  providers: [Maintenance, BackgroundWork, PurgeJob, AuditJob, SealJob, KeyMaterialJob, RetentionClock],
  exports: [BackgroundWork],
})
export class MaintenanceModule {}
