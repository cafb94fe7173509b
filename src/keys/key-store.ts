/**
 * The generated keys of one table, nodes or app credentials: issue, verify, rotate with an overlap, revoke, purge.
 * A digest is stored, never a key. Valid keys are cached under a lease (key-cache.ts, revocation-lease.ts); the feed
 * evicts what changed (revocation-feed.ts). Only the database refuses a key. When a call that ends a key has answered,
 * no replica accepts that key (propagation.ts, docs/decisions/0033).
 */
import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds, Clock } from '../common/clock.js';
import { ProblemException, problems } from '../problems/problems.js';
import { isId } from '../common/ids.js';
import { computeDigest, type SecretDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { RowsById } from '../database/rows-by-id.js';
import { Log } from '../logging/log.js';
import { issueKey, type IssuedKey } from './issued-key.js';
import type { KeyCache } from './cache/key-cache.js';
import type { KeyColumns } from './key-columns.js';
import { buildKeyStatements, toAuditEvent, type KeyStatements, type KeyTable } from './key-statements.js';
import { isRefusal, judgeKey, type KeyRow } from './judge-key.js';
import { LastUses } from './last-uses.js';
import { Overlaps } from './overlaps.js';
import type { Propagation } from './cache/propagation.js';
import type { Verdict } from './verdict.js';

export class KeyStore<Entity extends KeyColumns, Identity extends object>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly statements: KeyStatements;
  private readonly keyRows = new RowsById<KeyRow & Identity>((ids) => this.database.rows(this.statements.read, [ids]));
  private readonly lastUses: LastUses;
  private readonly overlaps: Overlaps;

  constructor(
    private readonly table: KeyTable<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    private readonly cache: KeyCache<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
    log: Log,
  ) {
    this.statements = buildKeyStatements(table);
    this.lastUses = new LastUses(database, this.statements.recordUses, log);
    this.overlaps = new Overlaps(database, table.name, log);
  }

  onModuleInit(): void {
    this.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.lastUses.stop();
  }

  issue(): IssuedKey {
    return issueKey(this.table.keyPrefix);
  }

  /**
   * A cached key is valid while the lease is held. Every other key, and every refusal, costs one primary-key read. The
   * only write is the first use of a rotated key: it ends the overlap before the response is sent.
   * @param isFresh asks PostgreSQL, not the cache
   */
  async verify(id: string, key: string, isFresh = false): Promise<Verdict<Identity>> {
    const presented = computeDigest(key);
    const cached = isFresh ? undefined : this.cache.recall(id, presented, this.clock.now());
    return cached ? { valid: true, identity: cached } : this.verifyInDatabase(id, presented);
  }

  private async verifyInDatabase(id: string, presented: SecretDigest): Promise<Verdict<Identity>> {
    const ticket = this.cache.takeTicket();
    const row = await this.keyRows.find(id);
    const now = this.clock.now();
    const judgement = judgeKey(presented, row, now);
    if (!row) return { valid: false, reason: 'unknown' };
    if (isRefusal(judgement)) return { valid: false, reason: judgement, identity: row };
    if (judgement === 'current_in_overlap' && !(await this.overlaps.end(id, presented, now)))
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

  /** Records that a verifier accepted a key from its memory. */
  recordEarlierUse(id: string, service: string, at: Date): void {
    this.lastUses.addEarlier(id, { at, service });
  }

  /**
   * Makes a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @returns the new key in plain text
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotate(id: string, overlapHours: number, actor: Actor): Promise<string> {
    return this.propagation.propagateAfter(() => this.commitRotation(id, overlapHours, actor));
  }

  /**
   * When it returns, no replica accepts the key, even one that is cut off from the database. Idempotent: the first
   * revocation is the recorded one.
   * @throws {ProblemException} not_found
   */
  async revoke(id: string, actor: Actor): Promise<Entity> {
    return this.propagation.propagateAfter(() => this.commitRevocation(id, actor));
  }

  /** Deletes rows that were revoked or expired before a moment. See {@link Database.purge}. */
  async purge(deadBefore: Date): Promise<number> {
    return this.database.purge(this.statements.purge, deadBefore);
  }

  /** Writes the batch of {@link recordUse} now. */
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
    if (rotated.length === 0) throw await this.toRotationProblem(credential.id);
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

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  private async find(id: string): Promise<Entity> {
    const credential = isId(id)
      ? await this.repository.createQueryBuilder('credential').where('credential.id = :id', { id }).getOne()
      : null;
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  private async toRotationProblem(id: string): Promise<ProblemException> {
    const { revokedAt } = await this.find(id);
    return new ProblemException(revokedAt ? problems.credentialRevoked : problems.credentialExpired);
  }
}
