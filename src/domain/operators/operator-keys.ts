import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import type { OperatorIdentity } from '../../foundation/access/actor.js';
import { computeDigest, isSameDigest, type SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { batchReads, Database } from '../../foundation/database/database.js';
import { isRefusal, determineKeyStatus, listKeyColumns, type KeyRow, Overlaps } from '../keys/key-lifecycle.js';
import { buildRecordUses, LastUses } from '../keys/last-uses.js';
import { Log } from '../../foundation/logging/log.js';

type OperatorRow = KeyRow & Omit<OperatorIdentity, 'keyDigest'>;

type OperatorVerdict =
  | { readonly valid: true; readonly operator: OperatorIdentity }
  | { readonly valid: false; readonly reason: 'unknown' }
  | { readonly valid: false; readonly reason: 'revoked' | 'expired'; readonly operator: OperatorIdentity };

/** The digest of a key with 256 random bits tells an attacker who times the index nothing about another key. */
const FIND = {
  name: 'operators_find',
  text: `SELECT ${listKeyColumns('operators')}, name, scopes
    FROM operators WHERE key_digest = ANY ($1::bytea[]) OR previous_key_digest = ANY ($1::bytea[])`,
};
const RECORD_USES = buildRecordUses({
  name: 'operators',
  door: 'admin',
  event: 'operator.first_used',
  details: `jsonb_build_object('operator', name)`,
});
const UNKNOWN = { valid: false, reason: 'unknown' } as const;

/**
 * Verifies the keys of operators. Nothing is cached: each call reads the row, so that a revocation and a change of
 * scopes hold on every replica from the next call on. Keys that arrive in one round of the event loop share a statement,
 * so that a flood of wrong ones does not use up the pool.
 */
@Injectable()
export class OperatorKeys implements OnModuleInit, OnApplicationShutdown {
  private readonly lastUses: LastUses;
  private readonly overlaps: Overlaps;
  private readonly findRow = batchReads((digests: readonly SecretDigest[]) => this.findRows(digests));

  constructor(
    private readonly database: Database,
    private readonly clock: ComparedClock,
    log: Log,
  ) {
    this.lastUses = new LastUses(database, RECORD_USES, log);
    this.overlaps = new Overlaps(database, 'operators', log);
  }

  onModuleInit(): void {
    this.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.lastUses.stop();
  }

  /** The only write is the first use of a rotated key: it ends the old key before the response is sent. */
  async verifyOperatorKey(key: string): Promise<OperatorVerdict> {
    const presented = computeDigest(key);
    const row = await this.findRow(presented);
    const now = this.clock.now();
    const status = determineKeyStatus(presented, row, this.clock);
    // The wrong key of a row is a previous one whose overlap has ended.
    if (!row || status === 'unknown' || status === 'wrong_key') return UNKNOWN;
    const operator = { id: row.id, name: row.name, scopes: row.scopes, keyDigest: presented };
    if (isRefusal(status)) return { valid: false, reason: status, operator };
    if (status === 'current_in_overlap' && !(await this.overlaps.endOverlap(row.id, presented, now)))
      return this.verifyOperatorKey(key);
    this.lastUses.add(row.id, { at: now, service: null });
    return { valid: true, operator };
  }

  async flushLastUsed(): Promise<void> {
    await this.lastUses.flush();
  }

  private async findRows(digests: readonly SecretDigest[]): Promise<(OperatorRow | undefined)[]> {
    const rows = await this.database.rows<OperatorRow>(FIND, [digests]);
    return digests.map((digest) =>
      rows.find((row) => [row.keyDigest, row.previousKeyDigest].some((held) => held && isSameDigest(held, digest))),
    );
  }
}
