import type { Actor } from '../../foundation/access/actor.js';
import type { Rememberable } from '../../foundation/access/principals.js';
import type { CountedRefusals } from '../audit/counted-refusals.js';
import type { KeyRefusalReason } from '../../foundation/common/key-kinds.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { computeDigest, isSameDigest, type SecretDigest } from '../../foundation/crypto/secret.js';
import type { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ANY_GIVEN_ID, batchReads, RowsById, type Database } from '../../foundation/database/database.js';
import type { Log } from '../../foundation/logging/log.js';
import { KeyCache } from '../../../packages/lease/src/key-cache.js';
import type { RevocationLease } from '../../../packages/lease/src/lease.js';
import {
  determineKeyStatus,
  findOverlapEnd,
  isRefusal,
  listKeyColumns,
  Overlaps,
  type KeyRow,
} from './key-lifecycle.js';
import type { AskedUse, KeyKind, KeyRestrictions, RestrictionViolation } from './key-record.js';
import { buildRecordUses, LastUses } from './last-uses.js';

const NO_USE_ASKED: AskedUse = {};

type RefusalEvent = NonNullable<KeyKind['refusalEvent']>;

type Verdict<Identity> =
  | {
      readonly valid: true;
      readonly identity: Identity;
      /** Whether this is the key that the last rotation replaced. */
      readonly isPrevious: boolean;
      /** Undefined from the cache, and during the overlap of a node, when each use has to reach this service. */
      readonly rememberable?: Rememberable | undefined;
    }
  | { readonly valid: false; readonly reason: KeyRefusalReason; readonly identity?: Identity }
  /** The key is valid, but restricted to other targets or scopes. */
  | {
      readonly valid: false;
      readonly reason: 'violation';
      readonly violation: RestrictionViolation['code'];
      readonly identity: Identity;
    };

type FoundRow<Identity> = KeyRow &
  Identity & {
    /** When the key was last rotated; null once a use of the new key is written. */
    readonly unusedSince: Date | null;
  };

interface VerifiedKey<Identity> {
  readonly identity: Identity;
  readonly isPrevious: boolean;
}

/**
 * Verifies the keys of one kind. It writes before its verdict only the first use of a new key, which ends the overlap of
 * a node; last uses and refusals are collected in memory and written later.
 */
export class KeyVerifier<Identity extends KeyRestrictions> {
  readonly lastUses: LastUses;
  private readonly cache: KeyCache<VerifiedKey<Identity>> | undefined;
  private readonly rowsById: RowsById<FoundRow<Identity>>;
  private readonly findRowByDigest = batchReads((digests: readonly SecretDigest[]) => this.findRows(digests));
  private readonly overlaps: Overlaps;
  private readonly readTrustedNow = (): Date => this.clock.trustedNow();

  constructor(
    private readonly kind: KeyKind,
    private readonly database: Database,
    lease: RevocationLease,
    private readonly clock: ComparedClock,
    log: Log,
    private readonly refusals: CountedRefusals,
    maxCachedKeys: number,
  ) {
    const readById = { name: `${kind.table}_read`, text: `${selectIdentities(kind)} WHERE id = ${ANY_GIVEN_ID}` };
    this.rowsById = new RowsById((ids) => database.rows(readById, [ids]));
    this.cache = kind.cachedAs && new KeyCache(kind.cachedAs, lease, maxCachedKeys);
    this.lastUses = new LastUses(database, buildRecordUses(kind), log);
    this.overlaps = new Overlaps(database, kind.table, log);
  }

  /** @param isFresh whether to skip the cache */
  async verifyKey(id: string, key: string, asked: AskedUse, isFresh = false): Promise<Verdict<Identity>> {
    const presented = computeDigest(key);
    const cached = isFresh ? undefined : this.cache?.recall(id, presented, this.readTrustedNow);
    if (!cached) return this.verifyInDatabase(id, presented, asked);
    return this.judgeRestrictions(cached.identity, asked) ?? { valid: true, ...cached };
  }

  /**
   * Verifies a key that is presented without an id, and is found by its digest. Keys that arrive in one round of the
   * event loop share a statement, so that a flood of wrong keys does not exhaust the pool.
   */
  async verifyDigest(presented: SecretDigest): Promise<Verdict<Identity>> {
    return this.verifyInDatabase(undefined, presented, NO_USE_ASKED);
  }

  private async verifyInDatabase(
    id: string | undefined,
    presented: SecretDigest,
    asked: AskedUse,
  ): Promise<Verdict<Identity>> {
    const ticket = this.cache?.takeTicket();
    const row = await (id === undefined ? this.findRowByDigest(presented) : this.rowsById.find(id));
    const status = determineKeyStatus(presented, row, this.clock);
    if (!row) return { valid: false, reason: 'unknown' };
    if (isRefusal(status)) return { valid: false, reason: status, identity: row };
    const refusal = this.judgeRestrictions(row, asked);
    // A refused call does not end the overlap, because the previous key may still be the one that its sender needs.
    if (refusal) return refusal;
    const { shared } = this.kind;
    const isInOverlap = status === 'current_in_overlap';
    if (isInOverlap && !shared && !(await this.overlaps.endOverlap(row.id, presented, this.clock.now())))
      return this.verifyInDatabase(id, presented, asked);
    // Another replica, which may rotate the key again, does not see the uses that this one holds in memory.
    if (isInOverlap && shared && row.unusedSince) await this.writeFirstUse(row.id, row.unusedSince, asked);
    const verified = { identity: row, isPrevious: status === 'previous' };
    // A node's key is not cached during an overlap, because the first use of the new key, on any replica, has to end
    // it.
    if (status !== 'current' && !shared) return { valid: true, ...verified };
    const rememberable = { expiresAt: findEnd(row, verified.isPrevious) };
    if (ticket) this.cache?.remember(row.id, { digest: presented, identity: verified, ...rememberable }, ticket);
    return { valid: true, ...verified, rememberable };
  }

  /** @param rotatedAt counts as the time of the use if this clock is behind that of the replica that rotated */
  private async writeFirstUse(id: string, rotatedAt: Date, { target }: AskedUse): Promise<void> {
    const now = this.clock.now();
    await this.lastUses.writeUse(id, { at: now < rotatedAt ? rotatedAt : now, service: target ?? null });
  }

  private judgeRestrictions(identity: Identity, asked: AskedUse): Verdict<Identity> | undefined {
    const violation = this.kind.findViolation(identity, asked);
    return violation && { valid: false, reason: 'violation', violation: violation.code, identity };
  }

  /** The duration of the index search reveals nothing about another key, because each key has 256 random bits. */
  private async findRows(digests: readonly SecretDigest[]): Promise<(FoundRow<Identity> | undefined)[]> {
    const findByDigest = {
      name: `${this.kind.table}_find_by_digest`,
      text: `${selectIdentities(this.kind)}
        WHERE key_digest = ANY ($1::bytea[]) OR previous_key_digest = ANY ($1::bytea[])`,
    };
    const rows = await this.database.rows<FoundRow<Identity>>(findByDigest, [digests]);
    return digests.map((digest) =>
      rows.find((row) => [row.keyDigest, row.previousKeyDigest].some((held) => held && isSameDigest(held, digest))),
    );
  }

  /** @param service the forwarding service, or else the named target; null when neither is known */
  recordUse(id: string, service: string | null, isPrevious: boolean, scope?: string): void {
    this.lastUses.addUse(id, { at: this.clock.now(), service, isPrevious }, scope);
  }

  /** Must be called for existing credentials only, because unknown ids could create any number of rows. */
  recordRefusal(id: string, reason: RefusalReason<RefusalEvent>, actor: Actor): void {
    const { refusalEvent: event } = this.kind;
    if (event) this.refusals.deferRefusal({ event, reason, counted: id, subject: id }, actor);
  }

  async stop(): Promise<void> {
    await this.lastUses.stop();
    await this.refusals.flush();
  }
}

const selectIdentities = ({ table, identityColumns }: KeyKind): string =>
  `SELECT ${listKeyColumns(table)}, ${identityColumns.join(', ')},
     CASE WHEN last_used_at >= rotated_at THEN NULL ELSE rotated_at END AS "unusedSince" FROM ${table}`;

function findEnd(row: KeyRow, isPrevious: boolean): Date | null {
  return (isPrevious ? findOverlapEnd(row) : null) ?? row.expiresAt;
}
