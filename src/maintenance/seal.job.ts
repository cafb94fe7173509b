import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { AuditSeals } from '../audit/audit-seals.js';
import { Environment } from '../config/environment.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

const MS_PER_SECOND = 1_000;

/**
 * Seals new rows of the audit log every 5 seconds, and once before the service listens: after a restore
 * from a dump, the new epoch must begin before new rows are written.
 */
@Injectable()
export class SealJob implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<number> | undefined;
  private hasFailed = false;

  constructor(
    private readonly seals: AuditSeals,
    private readonly environment: Environment,
    private readonly log: Log,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.run();
    const intervalMs = this.environment.auditSealIntervalSeconds * MS_PER_SECOND;
    this.timer = setInterval(() => void this.run(), intervalMs).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await this.running;
  }

  /** Single flight. Never rejects: the next run retries. @returns the number of rows sealed */
  run(): Promise<number> {
    this.running ??= this.seal().finally(() => (this.running = undefined));
    return this.running;
  }

  private async seal(): Promise<number> {
    try {
      const count = await this.seals.run();
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
