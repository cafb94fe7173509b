/**
 * What operators do with the keys of one kind. A call that ends a key answers after its
 * propagation, when no replica accepts the key any more, not even one that is cut off (docs/decisions/0033).
 * key-lifecycle.ts decides when a key ends, key-verifier.ts verifies it.
 */
import type { FactoryProvider, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import { In, IsNull, type DeepPartial, type EntityManager, type FindOptionsWhere, type Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { addSeconds } from '../../foundation/common/clock.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { createId, isId } from '../../foundation/common/ids.js';
import { computeDigest, generateKey, type SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database } from '../../foundation/database/database.js';
import { Environment } from '../../foundation/config/environment.js';
import { Log } from '../../foundation/logging/log.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { Propagation } from '../revocation/propagation.js';
import {
  buildLifecycleStatements,
  computeKeyEnd,
  explainKey,
  explainUnknownKey,
  nameActors,
  type Explanation,
} from './key-lifecycle.js';
import {
  buildKeyCount,
  type AskedUse,
  type IssuedCredential,
  type KeyColumns,
  type KeyCounts,
  type KeyKind,
  type KeyRestrictions,
} from './key-record.js';
import { KeyStores } from './key-stores.js';
import { KeyVerifier } from './key-verifier.js';

interface RotationOptions {
  readonly overlapHours: number;
  /** The last rotation as the caller knows it; null: none yet. Of two calls with the same value, one succeeds. */
  readonly ifRotatedAt?: Date | null | undefined;
  /** The recorded audit event; by default that of a rotation by an operator. */
  readonly event?: AuditEventName;
}

export class KeyStore<Entity extends KeyColumns & KeyRestrictions, Identity extends KeyRestrictions>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly statements;

  constructor(
    private readonly kind: KeyKind<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    readonly verifier: KeyVerifier<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {
    this.statements = buildLifecycleStatements(kind);
  }

  onModuleInit(): void {
    this.verifier.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.verifier.stop();
  }

  /** Creates a credential in memory; {@link insertCredential} stores it. */
  createCredential(fields: Partial<Entity>, now = this.clock.now()): IssuedCredential<Entity> {
    const key = generateKey(this.kind.keyPrefix);
    const row = { id: createId(), ...fields, keyDigest: computeDigest(key), createdAt: now, updatedAt: now };
    return { credential: this.repository.create(row as DeepPartial<Entity>), key };
  }

  async insertCredential(
    transaction: EntityManager,
    credential: Entity,
    actor: Actor,
    { details, ...further }: Partial<Pick<AuditEvent, 'event' | 'details' | 'logFields'>> = {},
  ): Promise<void> {
    const rows = transaction.withRepository(this.repository);
    await rows.insert(credential as Parameters<typeof rows.insert>[0]);
    const after = { ...this.kind.toFixedFields(credential), ...this.kind.toChangeableFields(credential) };
    const event = { actor, time: credential.createdAt, details: { ...details, after } };
    await this.audit.record(transaction, { ...this.toAuditEvent('issued', credential, event), ...further });
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async requireCredential(id: string, transaction?: EntityManager): Promise<Entity> {
    const credential = await this.readCredential(id, transaction);
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  /** Reads the whole table. @returns the credentials whose current or previous key has one of these digests */
  async findOwners(digests: readonly SecretDigest[]): Promise<{ row: Entity; owner: string }[]> {
    const where: unknown = [{ keyDigest: In(digests) }, { previousKeyDigest: In(digests) }];
    const rows = await this.repository.find({ where: where as FindOptionsWhere<Entity>[] });
    return rows.map((row) => ({ row, owner: this.kind.toOwner(row) }));
  }

  async countKeys(): Promise<KeyCounts> {
    const counts = await this.database.row<KeyCounts>(buildKeyCount(this.kind.table), [this.clock.now()]);
    if (!counts) throw new Error('PostgreSQL counted nothing');
    return counts;
  }

  async explainCredential(id: string, asked: AskedUse): Promise<Explanation> {
    await this.flushLastUsed();
    const credential = await this.readCredential(id);
    if (!credential) return explainUnknownKey();
    const explanation = explainKey(credential, this.clock.trustedNow(), this.kind.findViolation(credential, asked));
    return nameActors(explanation, credential.id, this.audit);
  }

  /**
   * Issues a new key that is valid at once. The last used key stays valid until the end of the overlap, or, for a node,
   * until the first use of the new one, so that a client may retry a rotation whose response was lost.
   * @param transaction of a caller that commits afterwards; only for keys that no replica caches
   * @throws {ProblemException} not_found; credential_revoked; credential_expired; key_rotated_meanwhile;
   * rotation_unfinished
   */
  async rotateKey(
    id: string,
    options: RotationOptions,
    actor: Actor,
    transaction?: EntityManager,
  ): Promise<IssuedCredential<Entity>> {
    // A first use that could not be written in an outage waits in memory. With a transaction the caller has flushed,
    // because the flush would wait for its lock of the row.
    if (this.kind.shared && !transaction) await this.flushLastUsed();
    const key = await this.propagateAfter(() => this.commitRotation(id, options, actor, transaction), { transaction });
    return { credential: await this.requireCredential(id, transaction), key };
  }

  /** Ends the key before the last rotation. Idempotent: without such a key it only waits, as every revocation does. */
  async finishRotation(id: string, actor: Actor, transaction?: EntityManager): Promise<void> {
    const { shared } = this.kind;
    if (!shared) throw new Error('The first use of the new key finishes its rotation');
    const finish = async (): Promise<void> => {
      const credential = await this.requireCredential(id, transaction);
      const time = this.clock.now();
      const details = { before: { previous_key_expires_at: credential.previousKeyExpiresAt } };
      const logFields = this.kind.toLogFields(credential);
      const event = { event: shared.finishedEvent, subject: credential.id, actor, time, details, logFields };
      const values = [credential.id, time, actor.requestId];
      await this.audit.execute(this.statements.finishRotation, values, event, transaction);
    };
    await this.propagateAfter(finish, { transaction });
  }

  /** Idempotent: the record keeps the first revocation. */
  async revokeKey(id: string, actor: Actor, transaction?: EntityManager): Promise<void> {
    const revoke = async () => this.commitRevocation(await this.requireCredential(id, transaction), actor, transaction);
    await this.propagateAfter(revoke, { transaction });
  }

  /** Idempotent. The caller commits, and then awaits the propagation. */
  async revokeKeyWithin(transaction: EntityManager, credential: Entity, actor: Actor): Promise<void> {
    await this.commitRevocation(credential, actor, transaction);
  }

  /**
   * Revokes several keys with one wait for propagation.
   * @returns the ids of the keys that were not revoked yet; unknown ids are ignored
   */
  async revokeKeys(ids: readonly string[], actor: Actor): Promise<string[]> {
    return this.propagateAfter(async () => {
      const where = { id: In(ids), revokedAt: IsNull() } as FindOptionsWhere<Entity>;
      const found = await this.repository.findBy(where);
      for (const credential of found) await this.commitRevocation(credential, actor);
      return found.map(({ id }) => id);
    });
  }

  /** Idempotent: a change without effect is not recorded. @throws {ProblemException} not_found; credential_revoked */
  async updateCredential(
    id: string,
    change: Partial<Entity>,
    actor: Actor,
    transaction?: EntityManager,
  ): Promise<Entity> {
    // Waits even when nothing changed, because this may be the retry of a call whose response was lost.
    const waitsOnSuccess = Object.keys(change).some((name) => !this.kind.labels.includes(name));
    const update = (within: EntityManager) => this.commitUpdate(within, id, change, actor);
    return this.propagateAfter(
      () => (transaction ? update(transaction) : this.repository.manager.transaction(update)),
      { transaction, waitsOnSuccess },
    );
  }

  async flushLastUsed(): Promise<void> {
    await this.verifier.lastUses.flush();
  }

  private async commitUpdate(
    transaction: EntityManager,
    givenId: string,
    change: Partial<Entity>,
    actor: Actor,
  ): Promise<Entity> {
    const rows = transaction.withRepository(this.repository);
    const where = { id: givenId } as FindOptionsWhere<Entity>;
    const lock = { mode: 'pessimistic_write' } as const;
    const before = isId(givenId) ? await rows.findOne({ where, lock }) : null;
    if (!before) throw new ProblemException(problems.notFound);
    if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
    const after = { ...before, ...change, updatedAt: this.clock.now() };
    const event = this.toAuditEvent('updated', before, { actor, time: after.updatedAt });
    const [was, is] = [before, after].map((row) => this.kind.toChangeableFields(row)) as [object, object];
    if (!(await this.audit.recordChange(transaction, event, was, is))) return before;
    await rows.update(where, { ...change, updatedAt: after.updatedAt } as Parameters<typeof rows.update>[1]);
    return after;
  }

  private async commitRotation(
    givenId: string,
    { overlapHours, ifRotatedAt, event: name }: RotationOptions,
    actor: Actor,
    transaction?: EntityManager,
  ): Promise<string> {
    const credential = await this.requireCredential(givenId, transaction);
    const key = generateKey(this.kind.keyPrefix);
    const now = this.clock.trustedNow();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const keyEnds = computeKeyEnd(now, this.kind.getLifeDays?.(credential));
    const expiry = keyEnds && { expires_at: keyEnds };
    const details = { after: { rotated_at: now, previous_key_expires_at: overlapEnds, ...expiry } };
    const byOperator = this.toAuditEvent('rotated', credential, { actor, time: now, details });
    const event = { ...byOperator, ...(name && { event: name }) };
    const believed = ifRotatedAt === null ? 'never' : (ifRotatedAt?.toISOString() ?? null);
    const values = [credential.id, computeDigest(key), overlapEnds, now, actor.requestId, believed, keyEnds ?? null];
    const rotated = await this.audit.execute(this.statements.rotate, values, event, transaction);
    if (rotated.length > 0) return key;
    const { revokedAt, rotatedAt, expiresAt } = await this.requireCredential(credential.id, transaction);
    if (revokedAt) throw new ProblemException(problems.credentialRevoked);
    if (believed !== null && believed !== (rotatedAt?.toISOString() ?? 'never'))
      throw new ProblemException(problems.keyRotatedMeanwhile);
    const isExpired = expiresAt !== null && expiresAt <= now;
    throw new ProblemException(isExpired ? problems.credentialExpired : problems.rotationUnfinished);
  }

  private async commitRevocation(credential: Entity, actor: Actor, transaction?: EntityManager): Promise<void> {
    const now = this.clock.now();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    const event = this.toAuditEvent('revoked', credential, { actor, time: now, details });
    const values = [credential.id, now, actor.requestId];
    const revoked = await this.audit.execute(this.statements.revoke, values, event, transaction);
    if (revoked.length === 0) this.audit.logOnly(event.event, actor, this.kind.toLogFields(credential));
  }

  private toAuditEvent(
    act: 'issued' | 'updated' | 'rotated' | 'revoked',
    row: Entity,
    event: Pick<AuditEvent, 'actor' | 'time' | 'details'>,
  ): AuditEvent {
    const { auditPrefix } = this.kind;
    return { event: `${auditPrefix}.${act}`, subject: row.id, logFields: this.kind.toLogFields(row), ...event };
  }

  private async readCredential(id: string, transaction?: EntityManager): Promise<Entity | null> {
    const rows = transaction?.withRepository(this.repository) ?? this.repository;
    return isId(id) ? rows.findOneBy({ id } as FindOptionsWhere<Entity>) : null;
  }

  /**
   * A kind of keys that no replica caches needs no wait: its keys end at the commit.
   * @throws {Error} for cached keys in a transaction of the caller, because the wait would end before its commit
   */
  private async propagateAfter<Result>(
    act: () => Promise<Result>,
    { transaction, waitsOnSuccess = true }: { transaction?: EntityManager | undefined; waitsOnSuccess?: boolean } = {},
  ): Promise<Result> {
    if (!this.kind.cachedAs) return act();
    if (transaction) throw new Error('Replicas cache these keys: commit, and then await the propagation');
    return this.propagation.propagateAfter(act, { waitsOnSuccess });
  }
}

const SERVICES = [
  KeyStores,
  Database,
  RevocationLease,
  Propagation,
  AuditLog,
  ComparedClock,
  Log,
  CountedRefusals,
  Environment,
] as const;
type Instances<Types extends readonly Type[]> = {
  -readonly [Index in keyof Types]: Types[Index] extends Type<infer Instance> ? Instance : never;
};

export function provideKeyStore<Entity extends KeyColumns & KeyRestrictions>(
  token: symbol,
  entity: Type<Entity>,
  kind: KeyKind,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), ...SERVICES],
    useFactory: (repository: Repository<Entity>, ...services: Instances<typeof SERVICES>) => {
      const [stores, database, lease, propagation, audit, clock, log, refusals, { maxCachedKeys }] = services;
      const verifier = new KeyVerifier(kind, database, lease, clock, log, refusals, maxCachedKeys);
      const store = new KeyStore(kind, repository, database, verifier, propagation, audit, clock);
      stores.addStore(kind.name, store);
      return store;
    },
  };
}
