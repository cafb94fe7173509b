import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { AuditJob } from './audit.job.js';
import { PurgeJob } from './purge.job.js';

const MS_PER_MINUTE = 60_000;

/** Runs the jobs every `PURGE_INTERVAL_MINUTES`. They log what goes wrong, and try again next time. */
@Injectable()
export class Maintenance implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly purge: PurgeJob,
    private readonly audit: AuditJob,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    this.timer = setInterval(() => {
      void this.purge.run();
      void this.audit.run();
    }, this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }
}
