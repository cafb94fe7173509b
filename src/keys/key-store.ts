/**
 * What operators do with the generated keys of one table, nodes or app credentials: find, explain, rotate, revoke, purge. Where a
 * key ends is told in key-ends.ts. When a call that ends a key has answered, no replica accepts that key, not even one that is
 * cut off from the database (docs/decisions/0033).
 */
import type { FactoryProvider, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import type { FindOptionsWhere, Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds, Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { ProblemException, problems } from '../problems/problems.js';
import { RevocationLease } from '../revocation/lease.js';
import { Propagation } from '../revocation/propagation.js';
import { buildKeyEndStatements, explainKey, explainUnknownKey, nameActors, type Explanation } from './key-ends.js';
import { issueKey, type IssuedCredential, type IssuedKey, type KeyColumns, type KeyTable } from './key-table.js';
import { KeyVerifier } from './key-verifier.js';

export class KeyStore<Entity extends KeyColumns, Identity extends object>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly ends;

  constructor(
    private readonly table: KeyTable<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    readonly verifier: KeyVerifier<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {
    this.ends = buildKeyEndStatements(table.name);
  }

  onModuleInit(): void {
    this.verifier.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.verifier.lastUses.stop();
  }

  issueKey(): IssuedKey {
    return issueKey(this.table.keyPrefix);
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findCredential(id: string): Promise<Entity> {
    const credential = await this.readCredential(id);
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  /** @param target the service to which the key is presented */
  async explainCredential(id: string, target?: string): Promise<Explanation> {
    await this.flushLastUsed();
    const credential = await this.readCredential(id);
    if (!credential) return explainUnknownKey();
    const onlyTarget = this.table.getTarget?.(credential);
    const isForAnother = target !== undefined && target !== onlyTarget;
    const explanation = explainKey(credential, this.clock.now(), isForAnother ? onlyTarget : undefined);
    return nameActors(explanation, credential.id, this.audit);
  }

  /**
   * Issues a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @throws {ProblemException} not_found; credential_revoked; credential_expired
   */
  async rotateKey(id: string, overlapHours: number, actor: Actor): Promise<IssuedCredential<Entity>> {
    const key = await this.propagation.propagateAfter(() => this.commitRotation(id, overlapHours, actor));
    return { credential: await this.findCredential(id), key };
  }

  /**
   * Idempotent: the first revocation is the recorded one.
   * @throws {ProblemException} not_found
   */
  async revokeKey(id: string, actor: Actor): Promise<Entity> {
    return this.propagation.propagateAfter(() => this.commitRevocation(id, actor));
  }

  async purge(deadBefore: Date): Promise<number> {
    return this.database.purge(this.ends.purge, deadBefore);
  }

  async flushLastUsed(): Promise<void> {
    await this.verifier.lastUses.flush();
  }

  private async commitRotation(givenId: string, overlapHours: number, actor: Actor): Promise<string> {
    const credential = await this.findCredential(givenId);
    const { key, columns } = this.issueKey();
    const now = this.clock.now();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const details = { after: { rotated_at: now, previous_key_expires_at: overlapEnds } };
    const event = this.toAuditEvent('rotated', credential, { actor, time: now, details });
    const values = [credential.id, columns.keyDigest, overlapEnds, now, actor.requestId];
    const rotated = await this.audit.execute(this.ends.rotate, values, event);
    if (rotated.length > 0) return key;
    const { revokedAt } = await this.findCredential(credential.id);
    throw new ProblemException(revokedAt ? problems.credentialRevoked : problems.credentialExpired);
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

  private async readCredential(id: string): Promise<Entity | null> {
    return isId(id) ? this.repository.findOneBy({ id } as FindOptionsWhere<Entity>) : null;
  }
}

export function provideKeyStore<Entity extends KeyColumns>(
  token: symbol,
  entity: Type<Entity>,
  table: KeyTable,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), Database, RevocationLease, Propagation, AuditLog, Clock, Log],
    useFactory: (
      repository: Repository<Entity>,
      database: Database,
      lease: RevocationLease,
      propagation: Propagation,
      audit: AuditLog,
      clock: Clock,
      log: Log,
    ) => {
      const verifier = new KeyVerifier(table, database, lease, clock, log);
      return new KeyStore(table, repository, database, verifier, propagation, audit, clock);
    },
  };
}
