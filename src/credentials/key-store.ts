import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { Repository } from 'typeorm';
import type { Actor } from '../audit/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds, Clock } from '../common/clock.js';
import { ProblemException } from '../common/problem.exception.js';
import { isId } from '../common/ids.js';
import { problems } from '../common/problems.js';
import { digestOf, randomSecret, randomSecretBytes, sameDigest, type SecretDigest } from '../crypto/secret.js';
import { isWriteRefusal } from '../database/database-failure.js';
import { Database } from '../database/database.js';
import { RowsById } from '../database/rows-by-id.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import type { KeyCache } from './key-cache.js';
import type { KeyColumns } from './key-columns.js';
import { keyStatements, toAuditEvent, type KeyStatements, type KeyTable } from './key-statements.js';
import { LastUses } from './last-uses.js';
import type { Propagation } from './propagation.js';

/** Compared with when there is no digest, so that every refusal costs the same. */
const DUMMY_DIGEST = digestOf(randomSecretBytes());

interface KeyRow {
  readonly id: string;
  readonly key_digest: SecretDigest;
  readonly previous_key_digest: SecretDigest | null;
  readonly previous_key_expires_at: Date | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

export type Verdict<Identity> =
  | { readonly valid: true; readonly identity: Identity }
  | {
      readonly valid: false;
      readonly reason: 'unknown' | 'wrong_key' | 'revoked' | 'expired';
      readonly identity?: Identity;
    };

export interface IssuedKey {
  /** The only time the key is seen in plain text. */
  readonly key: string;
  readonly columns: Omit<KeyColumns, 'id' | 'expiresAt' | 'createdAt' | 'updatedAt'>;
}

/** The life of the generated keys of one table: issued, verified, cached, rotated with an overlap, revoked, purged. */
export class KeyStore<Entity extends KeyColumns, Identity extends object>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly statements: KeyStatements;
  private readonly keyRows = new RowsById<KeyRow & Identity>((ids) => this.database.rows(this.statements.read, [ids]));
  private readonly lastUses: LastUses;
  /** Each validation may find out that it cannot. One of them says so. */
  private canEndOverlaps = true;

  constructor(
    private readonly table: KeyTable<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    private readonly cache: KeyCache<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.statements = keyStatements(table);
    this.lastUses = new LastUses(database, this.statements.recordUse, log);
  }

  onModuleInit(): void {
    this.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.lastUses.stop();
  }

  issue(): IssuedKey {
    const key = randomSecret(this.table.keyPrefix);
    return {
      key,
      columns: {
        keyDigest: digestOf(key),
        previousKeyDigest: null,
        previousKeyExpiresAt: null,
        rotatedAt: null,
        rotatedByRequest: null,
        overlapEndedAt: null,
        revokedAt: null,
        revokedByRequest: null,
        lastUsedAt: null,
        lastUsedFor: null,
      },
    };
  }

  /**
   * A key that this replica has verified before is answered from the cache while the lease is held. Everything else, and
   * every no, comes from the database: one primary-key read and no write, save for the first use of a rotated key,
   * which ends the old one before the answer leaves.
   */
  async verify(id: string, key: string): Promise<Verdict<Identity>> {
    const presented = digestOf(key);
    const known = this.cache.recall(id, presented, this.clock.now());
    return known ? { valid: true, identity: known } : this.verifyInDatabase(id, presented);
  }

  private async verifyInDatabase(id: string, presented: SecretDigest): Promise<Verdict<Identity>> {
    const ticket = this.cache.ticket();
    const row = await this.keyRows.find(id);
    const isCurrent = sameDigest(presented, row?.key_digest ?? DUMMY_DIGEST);
    const isPrevious = sameDigest(presented, row?.previous_key_digest ?? DUMMY_DIGEST);
    if (!row) return { valid: false, reason: 'unknown' };
    const now = this.clock.now();
    const overlaps = isPrevious && row.previous_key_expires_at !== null && row.previous_key_expires_at > now;
    if (!isCurrent && !overlaps) return { valid: false, reason: 'wrong_key', identity: row };
    if (row.revoked_at) return { valid: false, reason: 'revoked', identity: row };
    if (row.expires_at && row.expires_at <= now) return { valid: false, reason: 'expired', identity: row };
    // Another rotation came in between: what was read no longer holds.
    if (isCurrent && row.previous_key_digest && !(await this.endOverlap(id, presented, now))) {
      return this.verifyInDatabase(id, presented);
    }
    // During an overlap the first use of the new key anywhere ends the old one: the database has to see each use.
    if (!row.previous_key_digest)
      this.cache.remember(id, { digest: presented, identity: row, expiresAt: row.expires_at }, ticket);
    return { valid: true, identity: row };
  }

  /**
   * Remembers that a key was accepted just now; written down within half a minute.
   * @param service for which it was accepted, when that is known
   */
  accepted(id: string, service: string | null): void {
    this.lastUses.add(id, { at: this.clock.now(), service });
  }

  /**
   * Makes a new key that works at once. The key that is known to work stays good until the new one is first used
   * or the overlap is over: also when a rotation is repeated because its answer was lost.
   * @param overlapHours 0 ends the old key at once
   * @param actor who asks for it, for the record
   * @returns the new key in plain text
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotate(id: string, overlapHours: number, actor: Actor): Promise<string> {
    return this.propagation.after(() => this.commitRotation(id, overlapHours, actor));
  }

  /**
   * When it returns, no replica accepts the key any more, not even one that is cut off from the database. Revoking twice
   * is one revocation: the first request is kept.
   * @throws {ProblemException} not_found
   */
  async revoke(id: string, actor: Actor): Promise<Entity> {
    return this.propagation.after(() => this.commitRevocation(id, actor));
  }

  /** Deletes rows that were revoked or expired before a moment; see {@link Database.purge}. */
  async purge(deadBefore: Date, lock: number): Promise<number> {
    return this.database.purge(this.statements.purge, deadBefore, lock);
  }

  /** Writes down what {@link accepted} has gathered, at once. */
  async flushLastUsed(): Promise<void> {
    await this.lastUses.flush();
  }

  private async commitRotation(givenId: string, overlapHours: number, actor: Actor): Promise<string> {
    const credential = await this.find(givenId);
    const { key, columns } = this.issue();
    const now = this.clock.now();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const details = { after: { rotated_at: now, previous_key_expires_at: overlapEnds } };
    const event = toAuditEvent(this.table, 'rotated', credential, { actor, time: now, details });
    const values = [credential.id, columns.keyDigest, overlapEnds, now, actor.requestId];
    const rotated = await this.audit.execute(this.statements.rotate, values, event);
    if (rotated.length === 0) throw await this.whyNotRotated(credential.id);
    return key;
  }

  private async commitRevocation(givenId: string, actor: Actor): Promise<Entity> {
    const credential = await this.find(givenId);
    const now = this.clock.now();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    const event = toAuditEvent(this.table, 'revoked', credential, { actor, time: now, details });
    const revoked = await this.audit.execute(this.statements.revoke, [credential.id, now, actor.requestId], event);
    if (revoked.length === 0) this.audit.logOnly(event.event, actor, this.table.toLogFields(credential));
    return credential;
  }

  /** @returns false when the key is not the current one any more */
  private async endOverlap(id: string, currentDigest: SecretDigest, now: Date): Promise<boolean> {
    try {
      const ended = await this.database.row(this.statements.endOverlap, [id, currentDigest, now]);
      this.canEndOverlaps = true;
      return ended !== undefined;
    } catch (error) {
      // A database that reads but cannot write: the key is good, and the old one ends at its deadline.
      if (!isWriteRefusal(error)) throw error;
      if (this.canEndOverlaps) this.log.warning('overlap_not_ended', { error: errorFields(error) });
      this.canEndOverlaps = false;
      return true;
    }
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  private async find(id: string): Promise<Entity> {
    const credential = isId(id)
      ? await this.repository.createQueryBuilder('credential').where('credential.id = :id', { id }).getOne()
      : null;
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  private async whyNotRotated(id: string): Promise<ProblemException> {
    const { revokedAt } = await this.find(id);
    return new ProblemException(revokedAt ? problems.credentialRevoked : problems.credentialExpired);
  }
}
