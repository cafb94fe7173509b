import { Injectable } from '@nestjs/common';
import { AuditPartitions } from '../audit/audit-partitions.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { RetentionClock } from './retention-clock.js';

/** Keeps the audit log in order: months to come, closed windows of counted refusals, months that are too old. */
@Injectable()
export class AuditJob {
  constructor(
    private readonly refusals: CountedRefusals,
    private readonly partitions: AuditPartitions,
    private readonly clock: RetentionClock,
    private readonly log: Log,
  ) {}

  async run(): Promise<void> {
    try {
      // Destroys nothing, and goes by the clock of PostgreSQL alone.
      const made = await this.partitions.makeMonths();
      if (made.length > 0) this.log.info('audit_partitions_made', { count: made.length });
      const now = await this.clock.now();
      if (!now) return;
      await this.refusals.moveClosed(now);
      const month = await this.partitions.dropMonth();
      if (month !== undefined) this.log.info('audit_partition_dropped', { month });
      await this.partitions.pruneSealEntries();
    } catch (error) {
      this.log.warn('audit_job_failed', { error: toErrorFields(error) });
    }
  }
}
