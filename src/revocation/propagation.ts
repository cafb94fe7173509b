import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { createId } from '../common/ids.js';
import { MAX_LEASE_MS, computeRevocationWaitMs } from '../config/lease.js';
import { isWriteRefusal } from '../database/database-failure.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';
import { ProblemException } from '../problems/problems.js';
import { SYSTEM_CLOCKS, type Clocks } from './lease.js';

/** Six heartbeats fit into the minute for which an announcement counts. */
const HEARTBEAT_INTERVAL_MS = 10_000;
/** Half of that minute: this replica stops using its cache well before the others stop waiting for it. */
const MAX_SILENCE_MS = 30_000;

const ANNOUNCE = `INSERT INTO replica_leases (id, lease_ms) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET lease_ms = EXCLUDED.lease_ms, seen_at = now()`;

/**
 * Tells revoking calls on every replica how long this process may answer from its cache: announced before anything is
 * cached, and then as a heartbeat, by PostgreSQL's clock.
 */
export class LeaseAnnouncement {
  private readonly id = createId();
  private announcedAtMs = -Infinity;
  private announcedAtWallMs = -Infinity;

  constructor(
    private readonly leaseMs: number,
    private readonly clocks: Clocks = SYSTEM_CLOCKS,
  ) {}

  /** Whether revoking calls know this replica's lease. */
  get isCurrent(): boolean {
    return !this.isOlderThan(MAX_SILENCE_MS);
  }

  /** @throws when the announcement no longer counts and cannot be repeated */
  async announceIfDue(client: Pick<Client, 'query'>): Promise<void> {
    const [now, wall] = [this.clocks.monotonic(), this.clocks.wall()];
    if (!this.isOlderThan(HEARTBEAT_INTERVAL_MS)) return;
    try {
      await client.query(ANNOUNCE, [this.id, this.leaseMs]);
      this.announcedAtMs = now;
      this.announcedAtWallMs = wall;
    } catch (error) {
      // A database that cannot write cannot commit a revocation either.
      if (!isWriteRefusal(error) || !this.isCurrent) throw error;
    }
  }

  /** For a new connection: another server may not have the announcement. */
  makeDue(): void {
    this.announcedAtMs = Math.min(this.announcedAtMs, this.clocks.monotonic() - HEARTBEAT_INTERVAL_MS);
  }

  /** By either clock: the monotonic one may stop while the machine is suspended. */
  private isOlderThan(ageMs: number): boolean {
    const { clocks, announcedAtMs, announcedAtWallMs } = this;
    return clocks.monotonic() >= announcedAtMs + ageMs || clocks.wall() >= announcedAtWallMs + ageMs;
  }
}

const LONGEST_LEASE: Statement = {
  name: 'replica_leases_longest',
  text: `SELECT COALESCE(max(lease_ms), 0) AS longest FROM replica_leases WHERE seen_at > now() - interval '60 seconds'`,
};

/** The wait between the commit of a revocation and its response. After it, no replica accepts the key from its cache. */
export class Propagation {
  private isTooShort = false;

  /** @param minWaitMs for replicas of a version that does not announce its lease */
  constructor(
    private readonly minWaitMs: number,
    private readonly database: Database,
    private readonly log: Log,
  ) {}

  /**
   * To be called after the commit. The leases are read after it too: a replica that announces its lease even later reads
   * every key after the commit.
   */
  async awaitPropagation(): Promise<void> {
    const needed = computeRevocationWaitMs(await this.readLongestLeaseMs());
    if (needed > this.minWaitMs && !this.isTooShort) this.log.warn('revocation_wait_too_short', { delay_ms: needed });
    this.isTooShort = needed > this.minWaitMs;
    const waitMs = Math.max(needed, this.minWaitMs);
    if (waitMs > 0) await sleep(waitMs);
  }

  /**
   * Runs an act that ends a key, and awaits propagation, also when the act is refused: the refusal may mean that the key
   * has ended, and the call that ended it may still be waiting. 429 and 503 are not verdicts: they do not wait.
   */
  async propagateAfter<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = await this.catchRefusal(act);
    await this.awaitPropagation();
    if (result instanceof ProblemException) throw result;
    return result;
  }

  /** The same for an act that ends no key: only a refusal waits. */
  async propagateAfterRefusal<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = await this.catchRefusal(act);
    if (!(result instanceof ProblemException)) return result;
    await this.awaitPropagation();
    throw result;
  }

  private async catchRefusal<Result>(act: () => Promise<Result>): Promise<Result | ProblemException> {
    return act().catch((error: unknown) => {
      if (error instanceof ProblemException && isVerdict(error)) return error;
      throw error;
    });
  }

  /** The revocation is committed: 503 would be wrong. When the leases cannot be read, it waits for the longest possible one. */
  private async readLongestLeaseMs(): Promise<number> {
    try {
      return (await this.database.row<{ longest: number }>(LONGEST_LEASE, []))?.longest ?? 0;
    } catch (error) {
      this.log.warn('leases_not_read', { error: toErrorFields(error) });
      return MAX_LEASE_MS;
    }
  }
}

function isVerdict({ problem: { status } }: ProblemException): boolean {
  return status !== 429 && status < 500;
}
