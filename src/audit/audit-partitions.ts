import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { addDays, Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { LOCKS } from '../database/locks.js';

const LOCK_TIMEOUT_MS = 500;
const MONTHS_AHEAD = 3;
const MONTH_NAME = /^audit_events_(\d{4,})_(\d\d)$/;
const DEFAULT = 'audit_events_default';

/** A month of UTC by its first moment, as PostgreSQL reads a timestamp. */
type Month = string;

/** The months that the record is kept in: made ahead of their time, and dropped as a whole when they are too old. */
@Injectable()
export class AuditPartitions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @returns the names of the partitions that were made and dropped; none when another replica is at it */
  async keep(): Promise<{ made: string[]; dropped: string[] }> {
    const now = this.clock.now();
    return this.dataSource.transaction(async (transaction) => {
      const [lock] = await transaction.query<{ mine: boolean }[]>('SELECT pg_try_advisory_xact_lock($1) AS mine', [
        LOCKS.auditPartitions,
      ]);
      if (!lock?.mine) return { made: [], dropped: [] };
      // Whatever records an act waits while a partition is added or dropped: rather try again next time.
      await transaction.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
      const existing = await partitions(transaction);
      const made = await this.make(transaction, existing, now);
      return { made, dropped: await this.drop(transaction, [...existing, ...made], now) };
    });
  }

  /**
   * Rows of a month that was not made in time are in the default partition, which forbids to make it: they are taken
   * out, with their table, and put back once it is there.
   */
  private async make(transaction: EntityManager, existing: string[], now: Date): Promise<string[]> {
    const strays = await transaction.query<{ month: Month }[]>(
      `SELECT DISTINCT to_char(date_trunc('month', time AT TIME ZONE 'UTC'), 'YYYY-MM-DD') AS month FROM ${DEFAULT}`,
    );
    const ahead = Array.from({ length: MONTHS_AHEAD + 1 }, (_, index) => monthAfter(now, index));
    const wanted = new Set([...ahead, ...strays.map(({ month }) => month)]);
    const missing = [...wanted].filter((month) => !existing.includes(nameOf(month)));
    if (strays.length > 0) {
      await transaction.query(`ALTER TABLE audit_events DETACH PARTITION ${DEFAULT}`);
      await transaction.query(`ALTER TABLE ${DEFAULT} RENAME TO audit_events_strays`);
    }
    for (const month of missing) await transaction.query('SELECT audit_events_add_month($1)', [month]);
    if (strays.length > 0) {
      await transaction.query('INSERT INTO audit_events SELECT * FROM audit_events_strays');
      await transaction.query('DROP TABLE audit_events_strays');
      await transaction.query(`SELECT audit_events_add_partition('${DEFAULT}', 'DEFAULT')`);
    }
    return missing.map(nameOf);
  }

  private async drop(transaction: EntityManager, names: string[], now: Date): Promise<string[]> {
    const keptFrom = addDays(now, -this.environment.auditRetentionDays);
    const old = names.filter((name) => endOf(name) <= keptFrom);
    for (const name of old) await transaction.query(`DROP TABLE ${name}`);
    return old;
  }
}

async function partitions(transaction: EntityManager): Promise<string[]> {
  const rows = await transaction.query<{ name: string }[]>(
    `SELECT relname AS name FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
     WHERE inhparent = 'audit_events'::regclass ORDER BY relname`,
  );
  return rows.map(({ name }) => name).filter((name) => MONTH_NAME.test(name));
}

function monthAfter(moment: Date, months: number): Month {
  return new Date(Date.UTC(moment.getUTCFullYear(), moment.getUTCMonth() + months)).toISOString().slice(0, 10);
}

function nameOf(month: Month): string {
  const [year, number] = month.split('-');
  return `audit_events_${year}_${number}`;
}

function endOf(name: string): Date {
  const [, year, month] = MONTH_NAME.exec(name) ?? [];
  return new Date(Date.UTC(Number(year), Number(month)));
}
