import { Injectable } from '@nestjs/common';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { addDays } from '../common/clock.js';
import { RevocationFeed } from '../keys/cache/revocation-feed.js';
import { Environment } from '../config/environment.js';
import { LockNotAcquiredError } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { NodesService } from '../nodes/nodes.service.js';
import { RegistrationRetries } from '../nodes/registration-retries.js';
import { Challenges } from '../second-factors/challenges.js';
import { ThrottleWindows } from '../throttling/throttle-windows.js';
import { Outbox } from '../mail/outbox.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { OneTimeTokens } from '../users/one-time-tokens.js';
import { RetentionClock } from './retention-clock.js';

/**
 * Deletes sessions, keys, throttle windows, used challenges, one-time tokens and unsent mails after their retention, in
 * batches, in one replica at a time.
 */
@Injectable()
export class PurgeJob {
  constructor(
    private readonly sessions: SessionsService,
    private readonly nodes: NodesService,
    private readonly registrationRetries: RegistrationRetries,
    private readonly appCredentials: AppCredentialsService,
    private readonly revocations: RevocationFeed,
    private readonly throttleWindows: ThrottleWindows,
    private readonly challenges: Challenges,
    private readonly oneTimeTokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly environment: Environment,
    private readonly clock: RetentionClock,
    private readonly log: Log,
  ) {}

  /**
   * @returns the number of sessions and keys deleted before it was done, another replica held the lock, or the database
   *   failed
   */
  async run(): Promise<number> {
    let count = 0;
    try {
      const now = await this.clock.now();
      if (!now) return 0;
      const sessionsBefore = addDays(now, -this.environment.sessionKeepDays);
      const keysBefore = addDays(now, -this.environment.credentialKeepDays);
      count += await this.sessions.purge(sessionsBefore);
      count += await this.nodes.purge(keysBefore);
      await this.registrationRetries.purge(now);
      count += await this.appCredentials.purge(keysBefore);
      await this.revocations.purge();
      await this.throttleWindows.purgeWindows();
      await this.challenges.purge();
      await this.oneTimeTokens.purge(now);
      await this.outbox.purgeRequests();
    } catch (error) {
      // Stop when another replica holds the lock: if both went on with the next step, each could skip what the other locks.
      if (!(error instanceof LockNotAcquiredError)) this.log.warn('purge_failed', { error: toErrorFields(error) });
    }
    if (count > 0) this.log.info('purged', { count });
    return count;
  }
}
