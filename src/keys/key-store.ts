/**
 * The generated keys of one table, nodes or app credentials: issued, verified, rotated, revoked, purged. Valid keys are
 * cached under a lease (key-cache.ts), and only the database refuses one. Where a key ends is told in key-ends.ts.
 * When a call that ends a key has answered, no replica accepts that key (docs/decisions/0033).
 */
import type { FactoryProvider, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import type { Rememberable } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds } from '../common/clock.js';
import { isId } from '../common/ids.js';
import type { KeyRefusalReason } from '../common/security-events.js';
import { computeDigest, type SecretDigest } from '../crypto/secret.js';
import { ComparedClock } from '../database/compared-clock.js';
import { Database, type Statement, ANY_GIVEN_ID, RowsById } from '../database/database.js';
import { Log } from '../logging/log.js';
import { ProblemException, problems } from '../problems/problems.js';
import { RevocationLease } from '../revocation/lease.js';
import { Propagation } from '../revocation/propagation.js';
import { KeyCache } from './key-cache.js';
import {
  buildKeyEndStatements,
  isRefusal,
  judgeKey,
  Overlaps,
  type KeyEndStatements,
  type KeyRow,
} from './key-ends.js';
import { issueKey, type IssuedKey, type KeyColumns, type KeyTable } from './key-table.js';
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

export class KeyStore<Entity extends KeyColumns, Identity extends object>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly ends: KeyEndStatements;
  private readonly keyRows: RowsById<KeyRow & Identity>;
  private readonly lastUses: LastUses;
  private readonly overlaps: Overlaps;

  constructor(
    private readonly table: KeyTable<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    private readonly cache: KeyCache<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
    log: Log,
  ) {
    const readRows = buildReadRows(table);
    this.keyRows = new RowsById((ids) => database.rows(readRows, [ids]));
    this.ends = buildKeyEndStatements(table.name);
    this.lastUses = new LastUses(database, buildRecordUsesOf(table), log);
    this.overlaps = new Overlaps(database, table.name, log);
  }

  onModuleInit(): void {
    this.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.lastUses.stop();
  }

  /** Nothing is stored: the caller inserts the columns. */
  issueKey(): IssuedKey {
    return issueKey(this.table.keyPrefix);
  }

  /**
   * A cached key is valid while the lease is held. Every other key, and every refusal, costs one primary-key read. The
   * only write is the first use of a rotated key: it ends the overlap before the response is sent.
   * @param isFresh asks PostgreSQL, not the cache
   */
  async verifyKey(id: string, key: string, isFresh = false): Promise<Verdict<Identity>> {
    const presented = computeDigest(key);
    const cached = isFresh ? undefined : this.cache.recall(id, presented, this.clock.now());
    return cached ? { valid: true, identity: cached } : this.verifyInDatabase(id, presented);
  }

  private async verifyInDatabase(id: string, presented: SecretDigest): Promise<Verdict<Identity>> {
    const ticket = this.cache.takeTicket();
    const row = await this.keyRows.find(id);
    const judgement = judgeKey(presented, row, this.clock);
    if (!row) return { valid: false, reason: 'unknown' };
    if (isRefusal(judgement)) return { valid: false, reason: judgement, identity: row };
    if (judgement === 'current_in_overlap' && !(await this.overlaps.endOverlap(id, presented, this.clock.now())))
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

  /** Records that a service says it accepted a key from its memory. */
  recordReportedUse(id: string, service: string, at: Date): void {
    this.lastUses.addReported(id, service, at);
  }

  /**
   * Makes a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @returns the new key in plain text
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotateKey(id: string, overlapHours: number, actor: Actor): Promise<string> {
    return this.propagation.propagateAfter(() => this.commitRotation(id, overlapHours, actor));
  }

  /**
   * When it returns, no replica accepts the key, even one that is cut off from the database. Idempotent: the first
   * revocation is the recorded one.
   * @throws {ProblemException} not_found
   */
  async revokeKey(id: string, actor: Actor): Promise<Entity> {
    return this.propagation.propagateAfter(() => this.commitRevocation(id, actor));
  }

  /** Deletes rows that were revoked or expired before a moment. See {@link Database.purge}. */
  async purge(deadBefore: Date): Promise<number> {
    return this.database.purge(this.ends.purge, deadBefore);
  }

  /** Writes the batch of {@link recordUse} now. */
  async flushLastUsed(): Promise<void> {
    await this.lastUses.flush();
  }

  private async commitRotation(givenId: string, overlapHours: number, actor: Actor): Promise<string> {
    const credential = await this.findCredential(givenId);
    const { key, columns } = this.issueKey();
    const now = this.clock.trustedNow();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const details = { after: { rotated_at: now, previous_key_expires_at: overlapEnds } };
    const event = this.toAuditEvent('rotated', credential, { actor, time: now, details });
    const values = [credential.id, columns.keyDigest, overlapEnds, now, actor.requestId];
    const rotated = await this.audit.execute(this.ends.rotate, values, event);
    if (rotated.length === 0) throw await this.toRotationProblem(credential.id);
    return key;
  }

  private async commitRevocation(givenId: string, actor: Actor): Promise<Entity> {
    const credential = await this.findCredential(givenId);
    const now = this.clock.now();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    const event = this.toAuditEvent('revoked', credential, { actor, time: now, details });
    const revoked = await this.audit.execute(this.ends.revoke, [credential.id, now, actor.requestId], event);
    if (revoked.length === 0) this.audit.logOnly(event.event, actor, this.table.toLogFields(credential));
    return credential;
  }

  private toAuditEvent(
    act: 'rotated' | 'revoked',
    row: Entity,
    event: Pick<AuditEvent, 'actor' | 'time' | 'details'>,
  ): AuditEvent {
    const { auditPrefix } = this.table;
    return { event: `${auditPrefix}.${act}`, subject: row.id, logFields: this.table.toLogFields(row), ...event };
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  private async findCredential(id: string): Promise<Entity> {
    const credential = isId(id)
      ? await this.repository.createQueryBuilder('credential').where('credential.id = :id', { id }).getOne()
      : null;
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  private async toRotationProblem(id: string): Promise<ProblemException> {
    const { revokedAt } = await this.findCredential(id);
    return new ProblemException(revokedAt ? problems.credentialRevoked : problems.credentialExpired);
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

/** The key store of one table, under an injection token. */
export function provideKeyStore<Entity extends KeyColumns>(
  token: symbol,
  entity: Type<Entity>,
  table: KeyTable,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), Database, RevocationLease, Propagation, AuditLog, ComparedClock, Log],
    useFactory: (
      repository: Repository<Entity>,
      database: Database,
      lease: RevocationLease,
      propagation: Propagation,
      audit: AuditLog,
      clock: ComparedClock,
      log: Log,
    ) => {
      const cache = new KeyCache<object>(table.door, lease, MAX_CACHED_KEYS);
      return new KeyStore(table, repository, database, cache, propagation, audit, clock, log);
    },
  };
}
