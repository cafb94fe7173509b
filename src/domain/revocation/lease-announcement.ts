// Announces the longest promise (propagation.ts) of this process, before the first one and then as a heartbeat.

import { createId } from '../../foundation/common/ids.js';
import { isWriteRefusal } from '../../foundation/database/database-failure.js';
import { SYSTEM_CLOCKS, type Clocks } from '../../../packages/lease/src/lease.js';

/** An announcement counts for a minute, which is six heartbeats. */
const HEARTBEAT_INTERVAL_MS = 10_000;
/** Half of that minute, so that this replica gives no promise for which others no longer wait. */
const MAX_SILENCE_MS = 30_000;
/** How long a verifier may use an answer of a replica without a lease. */
const UNLEASED_PROMISE_MS = 500;

const ANNOUNCE = `INSERT INTO replica_leases (id, lease_ms) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET lease_ms = EXCLUDED.lease_ms, seen_at = now()`;

interface Connection {
  query(text: string, values: unknown[]): Promise<unknown>;
}

export class LeaseAnnouncement {
  readonly promiseMs: number;
  private readonly id = createId();
  private announcedAtMs = -Infinity;
  private announcedAtWallMs = -Infinity;
  private announcing: Promise<void> | undefined;

  /** @param leaseMs 0 without a lease; even then verifiers get a promise */
  constructor(
    leaseMs: number,
    private readonly clocks: Clocks = SYSTEM_CLOCKS,
  ) {
    this.promiseMs = leaseMs > 0 ? leaseMs : UNLEASED_PROMISE_MS;
  }

  /** Whether revoking calls wait for this replica's promises. Only then may it give any. */
  get isCurrent(): boolean {
    return !this.isOlderThan(MAX_SILENCE_MS);
  }

  /** Single flight. @throws when the announcement no longer counts and cannot be repeated */
  async announceIfDue(connection: Connection): Promise<void> {
    if (!this.isOlderThan(HEARTBEAT_INTERVAL_MS)) return;
    this.announcing ??= this.announce(connection).finally(() => (this.announcing = undefined));
    await this.announcing;
  }

  /** To be called for a new connection, because it may lead to a server without the announcement. */
  makeDue(): void {
    this.announcedAtMs = Math.min(this.announcedAtMs, this.clocks.monotonic() - HEARTBEAT_INTERVAL_MS);
  }

  /** The age counts from before the statement was sent, because this process may be suspended meanwhile. */
  private async announce(connection: Connection): Promise<void> {
    const [sentAtMs, sentAtWallMs] = [this.clocks.monotonic(), this.clocks.wall()];
    try {
      await connection.query(ANNOUNCE, [this.id, this.promiseMs]);
      this.announcedAtMs = sentAtMs;
      this.announcedAtWallMs = sentAtWallMs;
    } catch (error) {
      // A database that refuses writes commits no revocation either.
      if (!isWriteRefusal(error) || !this.isCurrent) throw error;
    }
  }

  /** Reads both clocks, because the monotonic one may stop while the machine is suspended. */
  private isOlderThan(ageMs: number): boolean {
    const { clocks, announcedAtMs, announcedAtWallMs } = this;
    return clocks.monotonic() >= announcedAtMs + ageMs || clocks.wall() >= announcedAtWallMs + ageMs;
  }
}
