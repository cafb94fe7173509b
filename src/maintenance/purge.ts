// Deletion after retention, in batches and in one replica at a time. It uses the clock of PostgreSQL, and deletes nothing
// while that clock and the replica's disagree: test/maintenance/wrong-clock.spec.ts fails without it.

import { Injectable } from '@nestjs/common';
import { addDays } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { ComparedClock } from '../database/compared-clock.js';
import { Database, LockNotAcquiredError } from '../database/database.js';
import { RevocationFeed } from '../revocation/revocation-feed.js';
import { toErrorFields, Log } from '../logging/log.js';
import { MetricsRegistry } from '../metrics/metrics-registry.js';
import { BackgroundWork } from './background-work.js';

/** Rows of a table, and for how many days they are kept after their end. */
interface Retention {
  readonly table: string;
  /** The columns of the primary key. */
  readonly key: string;
  /** SQL for the moment of the end; as an index has it, where the table is large. */
  readonly endsAt: string;
  readonly days: number;
  /** They are counted in the line `purged` of the log. */
  readonly isCounted?: true;
}

/** Sessions contain personal data (user agent and network): the law's limit for the audit log is theirs too. */
const MAX_SESSION_DAYS = 30;
const KEYS = { key: 'id', endsAt: 'LEAST(expires_at, revoked_at)', days: 365, isCounted: true } as const;
export const SESSIONS = { table: 'sessions', key: 'id', endsAt: 'LEAST(expires_at, ended_at)' };

function listRetentions({ auditRetentionDays }: Environment): Retention[] {
  return [
    { ...SESSIONS, days: Math.min(MAX_SESSION_DAYS, auditRetentionDays), isCounted: true },
    { table: 'nodes', ...KEYS },
    { table: 'app_credentials', ...KEYS },
    { table: 'idempotency_keys', key: 'key_mac', endsAt: 'created_at', days: 1 },
    // A used code is recognised until then.
    { table: 'node_enrolments', key: 'id', endsAt: 'expires_at', days: 30 },
    { table: 'one_time_tokens', key: 'user_id, purpose', endsAt: 'expires_at', days: 0 },
    { table: 'throttle_windows', key: 'key', endsAt: 'window_end', days: 0 },
    { table: 'used_challenges', key: 'digest', endsAt: 'expires_at', days: 1 / 24 },
    // Left behind by a service that sends no mail any more.
    { table: 'mail_requests', key: 'id', endsAt: 'requested_at', days: 2 },
  ];
}

/** @returns a statement that deletes at most `$2` rows that ended before `$1` */
export function buildDeletion({ table, key, endsAt }: Pick<Retention, 'table' | 'key' | 'endsAt'>): string {
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${endsAt} < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`;
}

@Injectable()
export class RetentionClock {
  private isSkewed = false;

  constructor(
    private readonly clock: ComparedClock,
    private readonly log: Log,
    metrics: MetricsRegistry,
  ) {
    const help = 'Seconds by which the clock of this replica is ahead of the clock of PostgreSQL.';
    // Workers share the clock of their machine.
    metrics.addGauge('clock_skew_seconds', help, () => clock.skewSeconds, 'max');
  }

  /** @returns the time of PostgreSQL; undefined while the two clocks differ by more than a minute */
  async now(): Promise<Date | undefined> {
    const now = await this.clock.compareClocks();
    const { isWrong: isSkewed, skewSeconds = 0 } = this.clock;
    const fields = { skew_seconds: Math.round(skewSeconds) };
    if (isSkewed && !this.isSkewed) this.log.warn('clock_skewed_nothing_is_deleted', fields);
    if (!isSkewed && this.isSkewed) this.log.info('clock_agrees_again', fields);
    this.isSkewed = isSkewed;
    return isSkewed ? undefined : now;
  }
}

@Injectable()
export class PurgeJob {
  constructor(
    private readonly database: Database,
    private readonly revocations: RevocationFeed,
    private readonly environment: Environment,
    private readonly work: BackgroundWork,
    private readonly clock: RetentionClock,
    private readonly log: Log,
  ) {}

  /** @returns the number of sessions and keys that were deleted, also when a later step failed */
  async purgeExpired(): Promise<number> {
    let count = 0;
    try {
      const now = await this.clock.now();
      if (!now) return 0;
      for (const retention of listRetentions(this.environment)) {
        const deleted = await this.database.purge(buildDeletion(retention), addDays(now, -retention.days));
        if (retention.isCounted) count += deleted;
      }
      await this.revocations.purge();
      await this.work.recordRun('purge');
    } catch (error) {
      // When another replica holds the lock, stop: if both went on with the next step, each could skip what the other locks.
      if (!(error instanceof LockNotAcquiredError)) this.log.warn('purge_failed', { error: toErrorFields(error) });
    }
    if (count > 0) this.log.info('purged', { count });
    return count;
  }
}
