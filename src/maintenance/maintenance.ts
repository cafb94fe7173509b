import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { AuditJob } from './audit.job.js';
import { KeyMaterialJob } from './key-material.job.js';
import { PurgeJob } from './purge.job.js';

const MS_PER_MINUTE = 60_000;

/**
 * Runs the jobs of purge, audit log and encryption every 15 minutes; the seal job has a timer of its own.
 * Every replica runs them, and each step takes an advisory lock or is conditional, so that replicas do not undo or repeat
 * each other's work. A failed job logs a warning, and the next run retries. Deletions use the clock of PostgreSQL
 * (retention-clock.ts).
 */
@Injectable()
export class Maintenance implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly purge: PurgeJob,
    private readonly audit: AuditJob,
    private readonly keyMaterial: KeyMaterialJob,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    this.timer = setInterval(() => {
      void this.purge.run();
      void this.audit.run();
      void this.keyMaterial.run();
    }, this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }
}
