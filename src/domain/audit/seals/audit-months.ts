import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Environment } from '../../../foundation/config/environment.js';
import { LOCKS, tryLock } from '../../../foundation/database/locks.js';
import { SealWriter } from './seal-writer.js';

const LOCK_TIMEOUT_MS = 500;
const MONTHS_AHEAD = 3;
const PRUNE_BATCH_SIZE = 1_000;
const PARTITION_PREFIX = 'audit_events_';

/**
 * The monthly partitions of the audit log: created in advance, dropped as a whole after the retention period. Functions
 * of the database do both (migrations/audit-log.ts), because the role of the service may lack the right.
 */
@Injectable()
export class AuditMonths {
  constructor(
    private readonly dataSource: DataSource,
    private readonly environment: Environment,
    private readonly seals: SealWriter,
  ) {}

  async createMonths(): Promise<number> {
    const created = await this.runExclusively(async (transaction) => {
      const [row] = await transaction.query<{ made: string[] }[]>('SELECT audit_events_make_months($1) AS made', [
        MONTHS_AHEAD,
      ]);
      return row?.made.length;
    });
    return created ?? 0;
  }

  /** Drops at most one month, and records the drop with a seal, because `audit verify` reports any other drop. */
  async dropMonth(): Promise<string | undefined> {
    return this.runExclusively(async (transaction) => {
      if (!(await this.seals.lockChain(transaction))) return undefined;
      const [row] = await transaction.query<{ name: string | null }[]>('SELECT audit_events_drop_month($1) AS name', [
        this.environment.auditRetentionDays,
      ]);
      if (!row?.name) return undefined;
      const month = row.name.slice(PARTITION_PREFIX.length).replace('_', '-');
      await this.seals.appendRecord(transaction, { dropped: month });
      return month;
    });
  }

  /** Deletes the entries of seals whose rows were dropped with their months. */
  async pruneSealEntries(): Promise<void> {
    for (let pruned = PRUNE_BATCH_SIZE; pruned === PRUNE_BATCH_SIZE;) {
      const [row] = await this.dataSource.query<{ pruned: number }[]>('SELECT audit_seal_entries_prune($1) AS pruned', [
        PRUNE_BATCH_SIZE,
      ]);
      pruned = row?.pruned ?? 0;
    }
  }

  private async runExclusively<Result>(
    work: (transaction: EntityManager) => Promise<Result | undefined>,
  ): Promise<Result | undefined> {
    return this.dataSource.transaction(async (transaction) => {
      if (!(await tryLock(transaction, LOCKS.auditPartitions))) return undefined;
      // Gives up soon, because inserts wait while a partition is added or dropped. The next run retries.
      await transaction.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
      return work(transaction);
    });
  }
}
