import { Injectable } from '@nestjs/common';
import { AuditPartitions } from '../audit/audit-partitions.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { RetentionClock } from './retention-clock.js';

/** Maintains the audit log: creates months in advance, moves closed windows of counted refusals, drops expired months. */
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
      // Deletes nothing and uses the clock of PostgreSQL alone: safe while the clocks disagree.
      const created = await this.partitions.createMonths();
      if (created.length > 0) this.log.info('audit_partitions_made', { count: created.length });
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
