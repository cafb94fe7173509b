import { Injectable } from '@nestjs/common';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { CHANGES_SINCE, parseSnapshot, toAnswer, type Answer, type FeedRow } from '../keys/cache/change-feed.js';
import { ChangeLog } from '../keys/cache/change-log.js';
import { RevocationLease } from '../keys/cache/revocation-lease.js';
import { NodesService } from '../nodes/nodes.service.js';
import { ProblemException, problems } from '../problems/problems.js';
import type { ReportedUse } from './changes.request.js';

/** An answer of the feed, and the lease that is handed on with it. */
export interface LeasedAnswer extends Answer {
  readonly leaseMs: number;
  readonly freshForMs: number;
}

/** Hands this replica's lease on to verifiers, with what changed since their last poll. */
@Injectable()
export class ChangesService {
  constructor(
    private readonly log: ChangeLog,
    private readonly lease: RevocationLease,
    private readonly database: Database,
    private readonly nodes: NodesService,
    private readonly appCredentials: AppCredentialsService,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} unavailable: this replica has no lease to hand on */
  async getChangesSince(cursor: string | undefined): Promise<LeasedAnswer> {
    const leaseMs = this.environment.revocationLeaseMs;
    if (leaseMs === 0) return { cursor: '', reset: true, changes: [], leaseMs, freshForMs: 0 };
    const answer = this.log.answer(cursor) ?? (await this.readChanges(cursor));
    // Read after the answer, without a pause between them: the lease is never longer than the answer is true.
    const freshForMs = this.lease.remainingMs;
    if (freshForMs === 0) throw new ProblemException(problems.unavailable);
    return { ...answer, leaseMs, freshForMs };
  }

  /** @param service that accepted the keys */
  recordUses(used: readonly ReportedUse[], service: string): void {
    const now = this.clock.now().getTime();
    for (const { kind, id, ago_ms } of used) {
      const owner = kind === 'node' ? this.nodes : this.appCredentials;
      owner.recordUse(id.toLowerCase(), service, new Date(now - ago_ms));
    }
  }

  private async readChanges(cursor: string | undefined): Promise<Answer> {
    const row = await this.database.row<FeedRow>(CHANGES_SINCE, [parseSnapshot(cursor)]);
    if (!row) throw new ProblemException(problems.unavailable);
    return toAnswer(cursor, row);
  }
}
