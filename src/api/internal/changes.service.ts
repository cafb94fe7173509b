import { Injectable } from '@nestjs/common';
import DataLoader from 'dataloader';
import { Clock } from '../../foundation/common/clock.js';
import { Environment } from '../../foundation/config/environment.js';
import { Database } from '../../foundation/database/database.js';
import { KeyStores } from '../../domain/keys/key-stores.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CHANGES_SINCE } from '../../domain/revocation/revocation-feed.js';
import {
  ChangeLog,
  parseSnapshot,
  toAnswer,
  type Answer,
  type FeedRow,
} from '../../../packages/lease/src/change-feed.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import type { ReportedUse } from './changes-request.js';

export interface LeasedAnswer extends Answer {
  readonly leaseMs: number;
  readonly freshForMs: number;
}

/** Hands the lease of this replica on to verifiers, with what changed since their last poll. */
@Injectable()
export class ChangesService {
  /** Calls with the same cursor share a statement, because the verifiers of a new replica ask with the same few. */
  private readonly reads: DataLoader<string, Answer> = new DataLoader(
    (cursors) => {
      this.reads.clearAll();
      return Promise.all(cursors.map((cursor) => this.readChanges(cursor)));
    },
    { batchScheduleFn: setImmediate },
  );

  constructor(
    private readonly log: ChangeLog,
    private readonly lease: RevocationLease,
    private readonly database: Database,
    private readonly keys: KeyStores,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} unavailable: this replica has no lease to hand on */
  async getChangesSince(cursor: string | undefined): Promise<LeasedAnswer> {
    const leaseMs = this.environment.revocationLeaseMs;
    if (leaseMs === 0) return { cursor: '', reset: true, changes: [], leaseMs, freshForMs: 0 };
    // Without a lease now, refuses before the read: a lease that begins during the read may be one that no revoking
    // call waited for.
    this.readRemainingLeaseMs();
    const answer = this.log.answer(cursor) ?? (await this.reads.load(cursor ?? ''));
    // Computed after the answer was read, with no await between, so that the lease never outlives what the answer says.
    const freshForMs = this.readRemainingLeaseMs();
    return { ...answer, leaseMs, freshForMs };
  }

  /**
   * @param used with any ids: a reported key that does not exist changes no row
   * @param service that accepted the keys
   */
  recordUses(used: readonly ReportedUse[], service: string): void {
    const now = this.clock.now().getTime();
    for (const { kind, id, ago_ms, scope, previous: isPrevious } of used) {
      const { lastUses } = this.keys.getStore(kind).verifier;
      lastUses.addReportedUse(id.toLowerCase(), service, new Date(now - ago_ms), scope, isPrevious);
    }
  }

  private readRemainingLeaseMs(): number {
    const { remainingMs } = this.lease;
    if (remainingMs === 0) throw new ProblemException(problems.unavailable);
    return remainingMs;
  }

  private async readChanges(cursor: string): Promise<Answer> {
    const row = await this.database.row<FeedRow>(CHANGES_SINCE, [parseSnapshot(cursor)]);
    if (!row) throw new ProblemException(problems.unavailable);
    return toAnswer(cursor, row);
  }
}
