// The jobs, and the timers that start them. Every replica starts them; each step takes an advisory lock or is conditional,
// so that replicas neither undo nor repeat each other's work. A failed job logs a warning, and its next run retries.

import {
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { AuditMonths, SealsModule } from '../audit/seals/audit-months.js';
import { SealWriter } from '../audit/seals/seal-writer.js';
import { Environment } from '../config/environment.js';
import { LockNotAcquiredError } from '../database/database.js';
import { Log, toErrorFields } from '../logging/log.js';
import { MailModule } from '../mail/mail-worker.js';
import { SecondFactorsModule } from '../second-factors/totp-enrolment.js';
import { TotpVault } from '../second-factors/totp.js';
import { SigningKeyRotation } from '../signing-keys/signing-key-rotation.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import { BackgroundWork } from './background-work.js';
import { PurgeJob, RetentionClock } from './purge.js';

const MS_PER_SECOND = 1_000;
const MS_PER_MINUTE = 60_000;

/** Creates months of the audit log in advance, moves closed windows of counted refusals, drops expired months. */
@Injectable()
export class AuditJob {
  constructor(
    private readonly refusals: CountedRefusals,
    private readonly months: AuditMonths,
    private readonly work: BackgroundWork,
    private readonly clock: RetentionClock,
    private readonly log: Log,
  ) {}

  async maintainAuditLog(): Promise<void> {
    try {
      // Safe while the clocks disagree: it deletes nothing and uses the clock of PostgreSQL alone.
      const count = await this.months.createMonths();
      if (count > 0) this.log.info('audit_partitions_made', { count });
      const now = await this.clock.now();
      if (!now) return;
      await this.refusals.moveClosedWindows(now);
      const month = await this.months.dropMonth();
      if (month !== undefined) this.log.info('audit_partition_dropped', { month });
      await this.months.pruneSealEntries();
      await this.work.recordRun('audit_maintenance');
    } catch (error) {
      this.log.warn('audit_job_failed', { error: toErrorFields(error) });
    }
  }
}

/** Encrypts again after a change of SECRET_KEY, replaces signing keys by age, and erases those that no token needs. */
@Injectable()
export class KeyMaterialJob implements OnApplicationBootstrap, OnApplicationShutdown {
  private reencryption: Promise<boolean> | undefined;

  constructor(
    private readonly totpVault: TotpVault,
    private readonly rotation: SigningKeyRotation,
    private readonly work: BackgroundWork,
    private readonly log: Log,
  ) {}

  /** An operator whose SECRET_KEY leaked waits for it. The start does not wait, because there may be many secrets. */
  onApplicationBootstrap(): void {
    void this.reencryptTotpSecrets();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.reencryption;
  }

  async renewKeyMaterial(): Promise<void> {
    const isReencrypted = await this.reencryptTotpSecrets();
    await this.warnOnFailure('signing_keys_job_failed', async () => {
      await this.rotation.reencryptKeys();
      await this.rotation.advanceKeys();
      if (isReencrypted) await this.work.recordRun('key_maintenance');
    });
  }

  /** Single flight. Signing keys are encrypted again when they are loaded at the start. */
  private reencryptTotpSecrets(): Promise<boolean> {
    this.reencryption ??= this.warnOnFailure('totp_secrets_job_failed', () =>
      this.totpVault.reencryptSecrets(),
    ).finally(() => (this.reencryption = undefined));
    return this.reencryption;
  }

  /** @returns whether the work succeeded */
  private async warnOnFailure(event: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (!(error instanceof LockNotAcquiredError)) this.log.warn(event, { error: toErrorFields(error) });
      return false;
    }
  }
}

@Injectable()
class Maintenance implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly purge: PurgeJob,
    private readonly audit: AuditJob,
    private readonly keyMaterial: KeyMaterialJob,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    this.timer = setInterval(() => {
      void this.purge.purgeExpired();
      void this.audit.maintainAuditLog();
      void this.keyMaterial.renewKeyMaterial();
    }, this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }
}

/**
 * Seals new rows of the audit log every few seconds, and once before the service listens: after a restore from a dump, the
 * new epoch must begin before new rows are written.
 */
@Injectable()
export class SealJob implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<number> | undefined;
  private hasFailed = false;

  constructor(
    private readonly seals: SealWriter,
    private readonly environment: Environment,
    private readonly log: Log,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.sealNewRows();
    const intervalMs = this.environment.auditSealIntervalSeconds * MS_PER_SECOND;
    this.timer = setInterval(() => void this.sealNewRows(), intervalMs).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await this.running;
  }

  /** Single flight. Never rejects: the next run retries. @returns the number of rows sealed */
  sealNewRows(): Promise<number> {
    this.running ??= this.trySeal().finally(() => (this.running = undefined));
    return this.running;
  }

  private async trySeal(): Promise<number> {
    try {
      const count = await this.seals.sealNewRows();
      if (this.hasFailed) this.log.info('audit_seals_again');
      this.hasFailed = false;
      return count;
    } catch (error) {
      if (!this.hasFailed) this.log.warn('audit_seal_failed', { error: toErrorFields(error) });
      this.hasFailed = true;
      return 0;
    }
  }
}

@Module({
  imports: [SealsModule, SigningKeysModule, MailModule, SecondFactorsModule],
  providers: [Maintenance, BackgroundWork, PurgeJob, AuditJob, SealJob, KeyMaterialJob, RetentionClock],
  exports: [BackgroundWork, PurgeJob, AuditJob, SealJob, KeyMaterialJob],
})
export class MaintenanceModule {}
