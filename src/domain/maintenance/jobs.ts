// The maintenance jobs, and the timers that start them in every replica. Each step takes an advisory lock or is
// conditional, so that replicas neither undo nor repeat each other's work. A failed job logs a warning, and its next
// run retries. The clock of PostgreSQL decides what has outlived its retention; nothing is deleted while the replica's
// clock disagrees.

import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { AuditMonths } from '../audit/seals/audit-months.js';
import { SealFold } from '../audit/seals/seal-fold.js';
import { SealWriter } from '../audit/seals/seal-writer.js';
import { EventCopy } from '../events/event-copy.js';
import { EventLag } from '../events/event-lag.js';
import { addDays } from '../../foundation/common/clock.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, LockNotAcquiredError } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import { MetricsRegistry } from '../../foundation/metrics/metrics-registry.js';
import { FailedLoginNotices } from '../mail/failed-login-notices.js';
import { RevocationFeed } from '../revocation/revocation-feed.js';
import { TotpVault } from '../second-factors/totp.js';
import { SigningKeyRotation } from '../signing-keys/signing-key-rotation.js';
import { HISTORY_DAYS } from '../../foundation/config/limits.js';
import { BackgroundWork } from './background-work.js';

const MS_PER_SECOND = 1_000;
const MS_PER_MINUTE = 60_000;
/**
 * At the stop, a job that runs has this long to end before the database connections close. Short, because it shares the
 * time until the deadline of the stop with requests, mails and traces.
 */
const STOP_TIMEOUT_MS = 1_000;

/** How long rows of a table are kept after their end. */
interface Retention {
  readonly table: string;
  readonly key: string;
  /** An SQL expression for the end of a row, which matches an index where the table is large. */
  readonly endsAt: string;
  readonly days: number;
  /** Whether the log line `purged` counts these rows. */
  readonly isCounted?: true;
}

/** Sessions contain personal data (user agent and network), so the retention of the audit log limits theirs too. */
const MAX_SESSION_DAYS = 30;
const KEYS = { key: 'id', endsAt: 'LEAST(expires_at, revoked_at)', days: 365, isCounted: true } as const;
export const SESSIONS = { table: 'sessions', key: 'id', endsAt: 'LEAST(expires_at, ended_at)' };
export const EVENTS = { table: 'events', key: 'seal, number', endsAt: 'time' };

function listRetentions({ auditRetentionDays }: Environment): Retention[] {
  return [
    { ...SESSIONS, days: Math.min(MAX_SESSION_DAYS, auditRetentionDays), isCounted: true },
    ...Object.values(KEY_KINDS).map(({ table }) => ({ table, ...KEYS })),
    { table: 'signing_keys', ...KEYS, endsAt: 'COALESCE(revoked_at, retired_at)' },
    { table: 'idempotency_keys', key: 'key_mac', endsAt: 'created_at', days: 1 },
    // A used code is recognised, as a reuse, until its row is deleted.
    { table: 'node_enrolments', key: 'id', endsAt: 'expires_at', days: 30 },
    { table: 'household_invitations', key: 'id', endsAt: 'expires_at', days: 30 },
    { table: 'one_time_tokens', key: 'user_id, purpose', endsAt: 'expires_at', days: 0 },
    { table: 'throttle_windows', key: 'key', endsAt: 'window_end', days: 0 },
    { table: 'used_challenges', key: 'digest', endsAt: 'expires_at', days: 1 / 24 },
    { table: 'hourly_counts', key: 'hour, process_id', endsAt: 'hour', days: HISTORY_DAYS },
    { ...EVENTS, days: auditRetentionDays },
    // Deletes the requests of a service that no longer sends mail.
    { table: 'mail_requests', key: 'id', endsAt: 'requested_at', days: 2 },
  ];
}

/** Builds a statement that deletes at most `$2` rows that ended before `$1`. */
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
    // `max`, because workers share the clock of their machine.
    metrics.addGauge('clock_skew_seconds', help, () => clock.skewSeconds, 'max');
  }

  /** @returns PostgreSQL's time; undefined while the two clocks differ by more than a minute */
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

/**
 * Logs a failure as a warning, unless another replica holds the lock and does the job.
 * @returns whether the work succeeded
 */
async function warnOnFailure(log: Log, event: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof LockNotAcquiredError)) log.warn(event, { error: toErrorFields(error) });
    return false;
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

  /**
   * Stops when another replica holds the lock, because two replicas at different steps could skip what the other one
   * locks.
   * @returns the number of deleted sessions and keys, even when a later step failed
   */
  async purgeExpired(): Promise<number> {
    let count = 0;
    await warnOnFailure(this.log, 'purge_failed', async () => {
      const now = await this.clock.now();
      if (!now) return;
      for (const retention of listRetentions(this.environment)) {
        const deleted = await this.database.purge(buildDeletion(retention), addDays(now, -retention.days));
        if (retention.isCounted) count += deleted;
      }
      await this.revocations.purge();
      await this.work.recordRun('purge');
    });
    if (count > 0) this.log.info('purged', { count });
    return count;
  }
}

/**
 * Creates months of the audit log in advance, moves closed windows of counted refusals, tells users of many failed
 * logins, drops expired months, and folds their seals.
 */
@Injectable()
export class AuditJob {
  constructor(
    private readonly refusals: CountedRefusals,
    private readonly months: AuditMonths,
    private readonly fold: SealFold,
    private readonly notices: FailedLoginNotices,
    private readonly work: BackgroundWork,
    private readonly clock: RetentionClock,
    private readonly log: Log,
  ) {}

  async maintainAuditLog(): Promise<void> {
    await warnOnFailure(this.log, 'audit_job_failed', async () => {
      // Safe while the clocks disagree, because it deletes nothing and uses PostgreSQL's clock alone.
      const count = await this.months.createMonths();
      if (count > 0) this.log.info('audit_partitions_made', { count });
      const now = await this.clock.now();
      if (!now) return;
      await this.refusals.moveClosedWindows(now);
      await this.notices.addNotices(now);
      const month = await this.months.dropMonth();
      if (month !== undefined) this.log.info('audit_partition_dropped', { month });
      await this.months.pruneSealEntries();
      const folded = await this.fold.foldSeals(now);
      if (folded > 0) this.log.info('audit_seals_folded', { count: folded });
      await this.work.recordRun('audit_maintenance');
    });
  }
}

/** Encrypts again after a change of MASTER_KEY, and replaces and erases signing keys by age. */
@Injectable()
export class KeyMaterialJob implements OnApplicationBootstrap, OnApplicationShutdown {
  private reencryption: Promise<boolean> | undefined;

  constructor(
    private readonly totpVault: TotpVault,
    private readonly rotation: SigningKeyRotation,
    private readonly work: BackgroundWork,
    private readonly log: Log,
  ) {}

  /**
   * Starts at once, because an operator whose MASTER_KEY leaked waits for the result. The start does not wait, because
   * there may be many secrets.
   */
  onApplicationBootstrap(): void {
    void this.reencryptTotpSecrets();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.reencryption;
  }

  async renewKeyMaterial(): Promise<void> {
    const isReencrypted = await this.reencryptTotpSecrets();
    await warnOnFailure(this.log, 'signing_keys_job_failed', async () => {
      await this.rotation.reencryptKeys();
      await this.rotation.advanceKeys();
      if (isReencrypted) await this.work.recordRun('key_maintenance');
    });
  }

  /** Single flight. */
  private reencryptTotpSecrets(): Promise<boolean> {
    this.reencryption ??= warnOnFailure(this.log, 'totp_secrets_job_failed', () =>
      this.totpVault.reencryptSecrets(),
    ).finally(() => (this.reencryption = undefined));
    return this.reencryption;
  }
}

@Injectable()
export class Maintenance implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running = Promise.resolve();

  constructor(
    private readonly purge: PurgeJob,
    private readonly audit: AuditJob,
    private readonly keyMaterial: KeyMaterialJob,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    this.timer = setInterval(() => {
      const started = [this.purge.purgeExpired(), this.audit.maintainAuditLog(), this.keyMaterial.renewKeyMaterial()];
      this.running = Promise.all([this.running, ...started]).then(() => undefined);
    }, this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await Promise.race([this.running, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
  }
}

/**
 * Seals new rows of the audit log every few seconds, and copies the events among them half an interval later, so that no
 * login competes with both for the CPU. Seals once before the service listens, because after a restore from a dump the
 * new epoch must begin before new rows are written.
 */
@Injectable()
export class SealJob implements OnModuleInit, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private sealing: Promise<number> | undefined;
  private copying: Promise<void> | undefined;
  private readonly failedSteps = new Set<string>();

  constructor(
    private readonly seals: SealWriter,
    private readonly events: EventCopy,
    private readonly eventLag: EventLag,
    private readonly environment: Environment,
    private readonly log: Log,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.sealNewRows();
    await this.copyNewEvents();
    const halfIntervalMs = (this.environment.auditSealIntervalSeconds * MS_PER_SECOND) / 2;
    let isSealNext = true;
    this.timer = setInterval(() => {
      void (isSealNext ? this.sealNewRows() : this.copyNewEvents());
      isSealNext = !isSealNext;
    }, halfIntervalMs).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await Promise.all([this.sealing, this.copying]);
  }

  /** Single flight. Never rejects, because the next run retries. @returns the number of sealed rows */
  sealNewRows(): Promise<number> {
    let count = 0;
    this.sealing ??= this.tryStep('audit_seal_failed', 'audit_seals_again', async () => {
      count = await this.seals.sealNewRows();
    })
      .then(() => count)
      .finally(() => (this.sealing = undefined));
    return this.sealing;
  }

  /** Copies events and measures how far each service lags behind. Single flight. Never rejects. */
  copyNewEvents(): Promise<void> {
    this.copying ??= this.tryStep('event_copy_failed', 'event_copy_again', async () => {
      await this.events.copyNewSeals();
      await this.eventLag.measure();
    }).finally(() => (this.copying = undefined));
    return this.copying;
  }

  /** Logs the first failure of a step, and that it works again. */
  private async tryStep(failed: string, again: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (this.failedSteps.delete(failed)) this.log.info(again);
    } catch (error) {
      if (!this.failedSteps.has(failed)) this.log.warn(failed, { error: toErrorFields(error) });
      this.failedSteps.add(failed);
    }
  }
}
