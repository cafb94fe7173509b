import { Injectable } from '@nestjs/common';
import { AuditPartitions } from '../audit/audit-partitions.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

/** Keeps the audit log in order: closed windows of counted refusals, months to come, months that are too old. */
@Injectable()
export class AuditJob {
  constructor(
    private readonly refusals: CountedRefusals,
    private readonly partitions: AuditPartitions,
    private readonly log: Log,
  ) {}

  async run(): Promise<void> {
    try {
      await this.refusals.moveClosed();
      const { made, dropped } = await this.partitions.keep();
      if (made.length > 0) this.log.info('audit_partitions_made', { count: made.length });
      if (dropped.length > 0) this.log.info('audit_partitions_dropped', { count: dropped.length });
    } catch (error) {
      this.log.warn('audit_job_failed', { error: toErrorFields(error) });
    }
  }
}
