/**
 * Verifies the keys that nodes and apps present: the hot path. Valid keys are cached under a lease (key-cache.ts), and only
 * the database refuses one. The only write is the first use of a rotated key, which ends the overlap before the response is
 * sent; the times of use are written in batches (last-uses.ts).
 */
import type { Rememberable } from '../access/principals.js';
import type { Clock } from '../common/clock.js';
import type { KeyRefusalReason } from '../common/security-events.js';
import { computeDigest, type SecretDigest } from '../crypto/secret.js';
import { ANY_GIVEN_ID, RowsById, type Database, type Statement } from '../database/database.js';
import type { Log } from '../logging/log.js';
import type { RevocationLease } from '../revocation/lease.js';
import { KeyCache } from './key-cache.js';
import { isRefusal, judgeKey, Overlaps, type KeyRow } from './key-ends.js';
import type { KeyTable } from './key-table.js';
import { buildRecordUses, LastUses } from './last-uses.js';

/** For nodes and for apps each. */
const MAX_CACHED_KEYS = 100_000;

export type Verdict<Identity> =
  | {
      readonly valid: true;
      readonly identity: Identity;
      /** Not during the overlap of a rotation, when each use has to reach this service, nor from the cache. */
      readonly rememberable?: Rememberable | undefined;
    }
  | { readonly valid: false; readonly reason: KeyRefusalReason; readonly identity?: Identity };

export class KeyVerifier<Identity extends object> {
  readonly lastUses: LastUses;
  private readonly cache: KeyCache<Identity>;
  private readonly rows: RowsById<KeyRow & Identity>;
  private readonly overlaps: Overlaps;

  constructor(
    table: KeyTable,
    database: Database,
    lease: RevocationLease,
    private readonly clock: Clock,
    log: Log,
  ) {
    const readRows = buildReadRows(table);
    this.rows = new RowsById((ids) => database.rows(readRows, [ids]));
    this.cache = new KeyCache(table.door, lease, MAX_CACHED_KEYS);
    this.lastUses = new LastUses(database, buildRecordUsesOf(table), log);
    this.overlaps = new Overlaps(database, table.name, log);
  }

  /** @param isFresh asks PostgreSQL, not the cache */
  async verifyKey(id: string, key: string, isFresh = false): Promise<Verdict<Identity>> {
    const presented = computeDigest(key);
    const cached = isFresh ? undefined : this.cache.recall(id, presented, this.clock.now());
    return cached ? { valid: true, identity: cached } : this.verifyInDatabase(id, presented);
  }

  private async verifyInDatabase(id: string, presented: SecretDigest): Promise<Verdict<Identity>> {
    const ticket = this.cache.takeTicket();
    const row = await this.rows.find(id);
    const now = this.clock.now();
    const judgement = judgeKey(presented, row, now);
    if (!row) return { valid: false, reason: 'unknown' };
    if (isRefusal(judgement)) return { valid: false, reason: judgement, identity: row };
    if (judgement === 'current_in_overlap' && !(await this.overlaps.endOverlap(id, presented, now)))
      return this.verifyInDatabase(id, presented);
    // Not cached during an overlap: the first use of the new key, on any replica, has to end the overlap.
    const rememberable = judgement === 'current' ? { expiresAt: row.expires_at } : undefined;
    if (rememberable) this.cache.remember(id, { digest: presented, identity: row, ...rememberable }, ticket);
    return { valid: true, identity: row, rememberable };
  }

  /**
   * Records that a key was accepted now. Written in a batch, within half a minute.
   * @param service the forwarding service or the named target, when known
   */
  recordUse(id: string, service: string | null): void {
    this.lastUses.add(id, { at: this.clock.now(), service });
  }
}

function buildReadRows({ name, identityColumns }: KeyTable): Statement {
  return {
    name: `${name}_read`,
    text: `SELECT id, ${identityColumns.join(', ')}, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
       FROM ${name} WHERE id = ${ANY_GIVEN_ID}`,
  };
}

function buildRecordUsesOf({ name, door, targetColumn }: KeyTable): Statement {
  return buildRecordUses({
    name,
    door,
    event: `${door}.first_used`,
    details: `jsonb_strip_nulls(jsonb_build_object('called_service', last_used_for,
      'reported_by', CASE WHEN is_reported THEN last_used_for END))`,
    ...(targetColumn && { targetColumn }),
  });
}
