import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { AuditJob } from './audit.job.js';
import { PurgeJob } from './purge.job.js';
import { SigningKeysJob } from './signing-keys.job.js';
import { TotpSecretsJob } from './totp-secrets.job.js';

const MS_PER_MINUTE = 60_000;

/**
 * Runs the jobs of purge, audit log, signing keys and TOTP secrets every `PURGE_INTERVAL_MINUTES`; the seal job has a timer of its own. Every replica
 * runs them; advisory locks let one at a time work. A failed job logs a warning, and the next run retries. Deletions go by
 * the clock of PostgreSQL (retention-clock.ts).
 */
@Injectable()
export class Maintenance implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly purge: PurgeJob,
    private readonly audit: AuditJob,
    private readonly signingKeys: SigningKeysJob,
    private readonly totpSecrets: TotpSecretsJob,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    this.timer = setInterval(() => {
      void this.purge.run();
      void this.audit.run();
      void this.signingKeys.run();
      void this.totpSecrets.run();
    }, this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }
}
