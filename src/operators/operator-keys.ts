import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import DataLoader from 'dataloader';
import type { OperatorIdentity } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { computeDigest, generateSecretBytes, isSameDigest, type SecretDigest } from '../crypto/secret.js';
import { isWriteRefusal } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { buildEndOverlap, buildRecordUses, type KeyRow } from '../keys/key-statements.js';
import { LastUses } from '../keys/last-uses.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

type OperatorRow = KeyRow & OperatorIdentity;

export type OperatorVerdict =
  | { readonly valid: true; readonly operator: OperatorIdentity }
  | { readonly valid: false; readonly reason: 'unknown' }
  | { readonly valid: false; readonly reason: 'revoked' | 'expired'; readonly operator: OperatorIdentity };

/** The digest of a key with 256 random bits tells an attacker who times the index nothing about another key. */
const FIND = {
  name: 'operators_find',
  text: `SELECT id, name, scopes, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
    FROM operators WHERE key_digest = ANY ($1::bytea[]) OR previous_key_digest = ANY ($1::bytea[])`,
};
const END_OVERLAP = buildEndOverlap('operators');
const RECORD_USES = buildRecordUses({
  name: 'operators',
  door: 'admin',
  event: 'operator.first_used',
  details: `jsonb_build_object('operator', name)`,
});
const MAX_BATCH_SIZE = 100;
/** Stands in for an absent digest: an unknown key is compared like a known one. */
const DUMMY_DIGEST = computeDigest(generateSecretBytes());
const UNKNOWN = { valid: false, reason: 'unknown' } as const;

/**
 * Verifies the keys of operators. Nothing is cached: each call reads the row, so that a revocation and a change of
 * scopes hold on every replica from the next call on. Keys that arrive in one round of the event loop share a statement,
 * so that a flood of wrong ones does not use up the pool.
 */
@Injectable()
export class OperatorKeys implements OnModuleInit, OnApplicationShutdown {
  private readonly lastUses: LastUses;
  private readonly rows = new DataLoader((digests: readonly SecretDigest[]) => this.find(digests), {
    cache: false,
    batchScheduleFn: setImmediate,
    maxBatchSize: MAX_BATCH_SIZE,
  });

  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.lastUses = new LastUses(database, RECORD_USES, log);
  }

  onModuleInit(): void {
    this.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.lastUses.stop();
  }

  /** The only write is the first use of a rotated key: it ends the old key before the response is sent. */
  async verify(key: string): Promise<OperatorVerdict> {
    const presented = computeDigest(key);
    const row = await this.rows.load(presented);
    const isCurrent = isSameDigest(presented, row?.key_digest ?? DUMMY_DIGEST);
    const isPrevious = isSameDigest(presented, row?.previous_key_digest ?? DUMMY_DIGEST);
    if (!row) return UNKNOWN;
    const now = this.clock.now();
    const isInOverlap = isPrevious && row.previous_key_expires_at !== null && row.previous_key_expires_at > now;
    if (!isCurrent && !isInOverlap) return UNKNOWN;
    const operator = { id: row.id, name: row.name, scopes: row.scopes };
    if (row.revoked_at) return { valid: false, reason: 'revoked', operator };
    if (row.expires_at && row.expires_at <= now) return { valid: false, reason: 'expired', operator };
    // Lost a race against another rotation: read the row again.
    if (isCurrent && row.previous_key_digest && !(await this.endOverlap(row.id, presented, now)))
      return this.verify(key);
    this.lastUses.add(row.id, { at: now, service: null });
    return { valid: true, operator };
  }

  /** Writes the uses that are not recorded yet. */
  async flushLastUsed(): Promise<void> {
    await this.lastUses.flush();
  }

  private async find(digests: readonly SecretDigest[]): Promise<(OperatorRow | undefined)[]> {
    const rows = await this.database.rows<OperatorRow>(FIND, [digests]);
    return digests.map((digest) =>
      rows.find((row) => [row.key_digest, row.previous_key_digest].some((held) => held && isSameDigest(held, digest))),
    );
  }

  /** @returns false when a rotation has replaced the key meanwhile */
  private async endOverlap(id: string, currentDigest: SecretDigest, now: Date): Promise<boolean> {
    try {
      return (await this.database.row(END_OVERLAP, [id, currentDigest, now])) !== undefined;
    } catch (error) {
      // Read-only database: the key is valid, and the old one ends at its deadline.
      if (!isWriteRefusal(error)) throw error;
      this.log.warn('overlap_not_ended', { operator_id: id, error: toErrorFields(error) });
      return true;
    }
  }
}
