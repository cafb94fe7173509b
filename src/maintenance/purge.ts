// Deletion after retention, in batches and in one replica at a time. It uses the clock of PostgreSQL, and deletes nothing
// while that clock and the replica's disagree: test/maintenance/wrong-clock.spec.ts fails without it.

import { Injectable } from '@nestjs/common';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { addDays } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { ComparedClock } from '../database/compared-clock.js';
import { LockNotAcquiredError } from '../database/database.js';
import { RevocationFeed } from '../revocation/revocation-feed.js';
import { toErrorFields, Log } from '../logging/log.js';
import { Outbox } from '../mail/outbox.js';
import { MetricsRegistry } from '../metrics/metrics-registry.js';
import { EnrolmentsService } from '../nodes/enrolments.service.js';
import { NodesService, RegistrationRetries } from '../nodes/nodes.service.js';
import { Challenges } from '../second-factors/challenges.js';
import { ThrottleWindows } from '../throttling/throttle-windows.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { OneTimeTokens } from '../users/one-time-tokens.js';
import { BackgroundWork } from './background-work.js';

/** Revoked and expired app credentials and nodes. */
const KEY_RETENTION_DAYS = 365;
/** Sessions contain personal data (user agent and network): the law's limit for the audit log is theirs too. */
const MAX_SESSION_RETENTION_DAYS = 30;

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
export class CredentialPurge {
  constructor(
    private readonly sessions: SessionsService,
    private readonly nodes: NodesService,
    private readonly registrationRetries: RegistrationRetries,
    private readonly enrolments: EnrolmentsService,
    private readonly appCredentials: AppCredentialsService,
    private readonly oneTimeTokens: OneTimeTokens,
    private readonly revocations: RevocationFeed,
    private readonly environment: Environment,
  ) {}

  /** Yields after each step the number of sessions and keys that it deleted. */
  async *purge(now: Date): AsyncGenerator<number> {
    const keysBefore = addDays(now, -KEY_RETENTION_DAYS);
    const sessionDays = Math.min(MAX_SESSION_RETENTION_DAYS, this.environment.auditRetentionDays);
    yield await this.sessions.purge(addDays(now, -sessionDays));
    yield await this.nodes.keys.purge(keysBefore);
    await this.registrationRetries.purge(now);
    await this.enrolments.purge(now);
    yield await this.appCredentials.keys.purge(keysBefore);
    await this.oneTimeTokens.purge(now);
    await this.revocations.purge();
  }
}

@Injectable()
export class PurgeJob {
  constructor(
    private readonly credentials: CredentialPurge,
    private readonly throttleWindows: ThrottleWindows,
    private readonly challenges: Challenges,
    private readonly outbox: Outbox,
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
      for await (const deleted of this.credentials.purge(now)) count += deleted;
      await this.throttleWindows.purgeWindows();
      await this.challenges.purgeUsedChallenges();
      await this.outbox.purgeRequests();
      await this.work.recordRun('purge');
    } catch (error) {
      // When another replica holds the lock, stop: if both went on with the next step, each could skip what the other locks.
      if (!(error instanceof LockNotAcquiredError)) this.log.warn('purge_failed', { error: toErrorFields(error) });
    }
    if (count > 0) this.log.info('purged', { count });
    return count;
  }
}
