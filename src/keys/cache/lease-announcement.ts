import type { Client } from 'pg';
import { createId } from '../../common/ids.js';
import { isWriteRefusal } from '../../database/database-failure.js';
import { SYSTEM_CLOCKS, type Clocks } from './revocation-lease.js';

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
