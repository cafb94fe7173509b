import type { Client } from 'pg';
import { createId } from '../common/ids.js';
import { isWriteRefusal } from '../database/database-failure.js';

/** Six of them fit into the minute for which an announcement counts. */
const HEARTBEAT_INTERVAL_MS = 10_000;
/** Half of that minute: well before other replicas stop waiting for this one, it stops using its cache. */
const MAX_SILENCE_MS = 30_000;

const ANNOUNCE = `INSERT INTO replica_leases (id, lease_ms) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET lease_ms = EXCLUDED.lease_ms, seen_at = now()`;

/**
 * Tells calls that revoke, on every replica, how long this process may answer from its cache. It announces before it
 * caches anything, and repeats it, by PostgreSQL's clock, for as long as it does.
 */
export class LeaseAnnouncement {
  private readonly id = createId();
  private announcedAtMs = -Infinity;

  constructor(
    private readonly leaseMs: number,
    private readonly monotonic: () => number = () => performance.now(),
  ) {}

  /** @throws when the announcement no longer counts and cannot be repeated */
  async keepUp(client: Pick<Client, 'query'>): Promise<void> {
    const now = this.monotonic();
    if (now < this.announcedAtMs + HEARTBEAT_INTERVAL_MS) return;
    try {
      await client.query(ANNOUNCE, [this.id, this.leaseMs]);
      this.announcedAtMs = now;
    } catch (error) {
      // While the database cannot write, nothing is revoked either.
      if (!isWriteRefusal(error) || now >= this.announcedAtMs + MAX_SILENCE_MS) throw error;
    }
  }

  /** Another server may not have it. */
  repeat(): void {
    this.announcedAtMs = Math.min(this.announcedAtMs, this.monotonic() - HEARTBEAT_INTERVAL_MS);
  }
}
