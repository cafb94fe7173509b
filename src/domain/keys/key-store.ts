/**
 * The generated keys of one table, nodes or app credentials. `KeyVerifier` is the hot path: valid keys are cached under a lease
 * (key-cache.ts), and only the database refuses one. `KeyStore` is what operators do with the keys. When a call that ends a key
 * has answered, no replica accepts that key, not even one that is cut off (docs/decisions/0033). Where a key ends is told in
 * key-lifecycle.ts.
 */
import type { FactoryProvider, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { getRepositoryToken } from '@nestjs/typeorm';
import { In, IsNull, type FindOptionsWhere, type Repository } from 'typeorm';
import type { Actor, Rememberable } from '../../foundation/access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { isId } from '../../foundation/common/ids.js';
import type { KeyRefusalReason, RefusalReason } from '../../foundation/common/security-events.js';
import { computeDigest, type SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ANY_GIVEN_ID, RowsById, type Statement, Database } from '../../foundation/database/database.js';
import { Log } from '../../foundation/logging/log.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { Propagation } from '../revocation/propagation.js';
import { KeyCache } from '../../../packages/lease/src/key-cache.js';
import {
  isRefusal,
  determineKeyStatus,
  listKeyColumns,
  Overlaps,
  type KeyRow,
  buildKeyEndStatements,
  explainKey,
  explainUnknownKey,
  nameActors,
  type Explanation,
} from './key-lifecycle.js';
import {
  type AskedUse,
  buildKeyCount,
  findByDigests,
  type KeyCounts,
  type KeyRestrictions,
  type KeyKind,
  issueKey,
  type IssuedCredential,
  type IssuedKey,
  type RestrictionViolation,
  type KeyColumns,
} from './key-record.js';
import { buildRecordUses, LastUses } from './last-uses.js';

/** For nodes and for apps each. */
const MAX_CACHED_KEYS = 100_000;

type ValidationRefusalReason = RefusalReason<`${KeyKind['door']}.validation.failed`>;

export type Verdict<Identity> =
  | {
      readonly valid: true;
      readonly identity: Identity;
      /** Not during the overlap of a rotation, when each use has to reach this service, nor from the cache. */
      readonly rememberable?: Rememberable | undefined;
    }
  | { readonly valid: false; readonly reason: KeyRefusalReason; readonly identity?: Identity }
  /** The key is right, but it is restricted to other targets or scopes. */
  | {
      readonly valid: false;
      readonly reason: 'violation';
      readonly violation: RestrictionViolation['code'];
      readonly identity: Identity;
    };

const DETAILS_OF_FIRST_USE = `jsonb_strip_nulls(jsonb_build_object('called_service', last_used_for,
  'reported_by', CASE WHEN is_reported THEN last_used_for END))`;

/** The only write is the first use of a rotated key, which ends the overlap before the response is sent. */
export class KeyVerifier<Identity extends KeyRestrictions> {
  readonly lastUses: LastUses;
  private readonly cache: KeyCache<Identity>;
  private readonly rows: RowsById<KeyRow & Identity>;
  private readonly overlaps: Overlaps;

  constructor(
    private readonly table: KeyKind,
    database: Database,
    lease: RevocationLease,
    private readonly clock: ComparedClock,
    log: Log,
    private readonly refusals: CountedRefusals,
  ) {
    const readRows = buildReadRows(table);
    this.rows = new RowsById((ids) => database.rows(readRows, [ids]));
    this.cache = new KeyCache(table.door, lease, MAX_CACHED_KEYS);
    const usedKeys = { ...table, event: `${table.door}.first_used` as const, details: DETAILS_OF_FIRST_USE };
    this.lastUses = new LastUses(database, buildRecordUses(usedKeys), log);
    this.overlaps = new Overlaps(database, table.name, log);
  }

  /** @param isFresh asks PostgreSQL, not the cache */
  async verifyKey(id: string, key: string, asked: AskedUse, isFresh = false): Promise<Verdict<Identity>> {
    const presented = computeDigest(key);
    const cached = isFresh ? undefined : this.cache.recall(id, presented, this.clock.now());
    if (!cached) return this.verifyInDatabase(id, presented, asked);
    return this.judgeRestrictions(cached, asked) ?? { valid: true, identity: cached };
  }

  private async verifyInDatabase(id: string, presented: SecretDigest, asked: AskedUse): Promise<Verdict<Identity>> {
    const ticket = this.cache.takeTicket();
    const row = await this.rows.find(id);
    const status = determineKeyStatus(presented, row, this.clock);
    if (!row) return { valid: false, reason: 'unknown' };
    if (isRefusal(status)) return { valid: false, reason: status, identity: row };
    const refusal = this.judgeRestrictions(row, asked);
    // A call that is refused does not end the overlap: the key that its sender has to use may still be the previous one.
    if (refusal) return refusal;
    if (status === 'current_in_overlap' && !(await this.overlaps.endOverlap(id, presented, this.clock.now())))
      return this.verifyInDatabase(id, presented, asked);
    // Not cached during an overlap: the first use of the new key, on any replica, has to end the overlap.
    const rememberable = status === 'current' ? { expiresAt: row.expiresAt } : undefined;
    if (rememberable) this.cache.remember(id, { digest: presented, identity: row, ...rememberable }, ticket);
    return { valid: true, identity: row, rememberable };
  }

  private judgeRestrictions(identity: Identity, asked: AskedUse): Verdict<Identity> | undefined {
    const violation = this.table.findViolation(identity, asked);
    return violation && { valid: false, reason: 'violation', violation: violation.code, identity };
  }

  /** @param service the forwarding service or the named target, when known */
  recordUse(id: string, service: string | null, scope?: string): void {
    this.lastUses.add(id, { at: this.clock.now(), service }, scope);
  }

  /** Of a credential that exists: ids that do not exist would be any number of rows. */
  recordRefusal(id: string, reason: ValidationRefusalReason, actor: Actor): void {
    const { door } = this.table;
    this.refusals.deferRefusal({ event: `${door}.validation.failed`, reason, counted: id, subject: id }, actor);
  }

  async stop(): Promise<void> {
    await this.lastUses.stop();
    await this.refusals.flush();
  }
}

function buildReadRows({ name, identityColumns }: KeyKind): Statement {
  return {
    name: `${name}_read`,
    text: `SELECT ${listKeyColumns(name)}, ${identityColumns.join(', ')} FROM ${name} WHERE id = ${ANY_GIVEN_ID}`,
  };
}

export class KeyStore<Entity extends KeyColumns & KeyRestrictions, Identity extends KeyRestrictions>
  implements OnModuleInit, OnApplicationShutdown
{
  private readonly ends;

  constructor(
    private readonly table: KeyKind<Entity>,
    private readonly repository: Repository<Entity>,
    private readonly database: Database,
    readonly verifier: KeyVerifier<Identity>,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {
    this.ends = buildKeyEndStatements(table.name);
  }

  onModuleInit(): void {
    this.verifier.lastUses.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.verifier.stop();
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

  /** @returns the credentials whose current or previous key has one of these digests; reads the whole table */
  async findByDigests(digests: SecretDigest[]): Promise<Entity[]> {
    return findByDigests(this.repository, digests);
  }

  async countKeys(): Promise<KeyCounts> {
    const counts = await this.database.row<KeyCounts>(buildKeyCount(this.table.name), [this.clock.now()]);
    if (!counts) throw new Error('PostgreSQL counted nothing');
    return counts;
  }

  async explainCredential(id: string, asked: AskedUse): Promise<Explanation> {
    await this.flushLastUsed();
    const credential = await this.readCredential(id);
    if (!credential) return explainUnknownKey();
    const explanation = explainKey(credential, this.clock.trustedNow(), this.table.findViolation(credential, asked));
    return nameActors(explanation, credential.id, this.audit);
  }

  /**
   * Issues a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @param ifRotatedAt when the caller believes that the last rotation was; null: never. Of two such calls, one succeeds
   * @throws {ProblemException} not_found; credential_revoked; credential_expired; key_rotated_meanwhile
   */
  async rotateKey(
    id: string,
    overlapHours: number,
    actor: Actor,
    ifRotatedAt?: Date | null,
  ): Promise<IssuedCredential<Entity>> {
    const key = await this.propagation.propagateAfter(() => this.commitRotation(id, overlapHours, actor, ifRotatedAt));
    return { credential: await this.findCredential(id), key };
  }

  /** Idempotent: the first revocation is the recorded one. */
  async revokeKey(id: string, actor: Actor): Promise<Entity> {
    return this.propagation.propagateAfter(async () => this.commitRevocation(await this.findCredential(id), actor));
  }

  /** Revokes several keys with one wait. @returns the ids of those that were live; unknown ones are skipped */
  async revokeKeys(ids: readonly string[], actor: Actor): Promise<string[]> {
    return this.propagation.propagateAfter(async () => {
      const where = { id: In(ids), revokedAt: IsNull() } as FindOptionsWhere<Entity>;
      const found = await this.repository.findBy(where);
      for (const credential of found) await this.commitRevocation(credential, actor);
      return found.map(({ id }) => id);
    });
  }

  /** Idempotent: a change that changes nothing is not recorded. @throws {ProblemException} not_found; credential_revoked */
  async updateCredential(id: string, change: Partial<Entity>, actor: Actor): Promise<Entity> {
    // Waits even when nothing changed: this may be the retry of a call whose response was lost.
    const endsAKey = Object.keys(change).some((name) => !this.table.labels.includes(name));
    return this.propagation.propagateAfter(() => this.commitUpdate(id, change, actor), { endsAKey });
  }

  async flushLastUsed(): Promise<void> {
    await this.verifier.lastUses.flush();
  }

  private async commitUpdate(givenId: string, change: Partial<Entity>, actor: Actor): Promise<Entity> {
    return this.repository.manager.transaction(async (transaction) => {
      const rows = transaction.withRepository(this.repository);
      const where = { id: givenId } as FindOptionsWhere<Entity>;
      const lock = { mode: 'pessimistic_write' } as const;
      const before = isId(givenId) ? await rows.findOne({ where, lock }) : null;
      if (!before) throw new ProblemException(problems.notFound);
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
      const after = { ...before, ...change, updatedAt: this.clock.now() };
      const event = this.toAuditEvent('updated', before, { actor, time: after.updatedAt });
      const [was, is] = [before, after].map((row) => this.table.toChangeableFields(row)) as [object, object];
      if (!(await this.audit.recordChange(transaction, event, was, is))) return before;
      await rows.update(where, { ...change, updatedAt: after.updatedAt } as Parameters<typeof rows.update>[1]);
      return after;
    });
  }

  private async commitRotation(
    givenId: string,
    overlapHours: number,
    actor: Actor,
    ifRotatedAt: Date | null | undefined,
  ): Promise<string> {
    const credential = await this.findCredential(givenId);
    const { key, keyDigest } = this.issueKey();
    const now = this.clock.trustedNow();
    const overlapEnds = addSeconds(now, overlapHours * 3_600);
    const details = { after: { rotated_at: now, previous_key_expires_at: overlapEnds } };
    const event = this.toAuditEvent('rotated', credential, { actor, time: now, details });
    const believed = ifRotatedAt === null ? 'never' : (ifRotatedAt?.toISOString() ?? null);
    const values = [credential.id, keyDigest, overlapEnds, now, actor.requestId, believed];
    const rotated = await this.audit.execute(this.ends.rotate, values, event);
    if (rotated.length > 0) return key;
    const { revokedAt, rotatedAt } = await this.findCredential(credential.id);
    if (revokedAt) throw new ProblemException(problems.credentialRevoked);
    const isRotated = believed !== null && believed !== (rotatedAt?.toISOString() ?? 'never');
    throw new ProblemException(isRotated ? problems.keyRotatedMeanwhile : problems.credentialExpired);
  }

  private async commitRevocation(credential: Entity, actor: Actor): Promise<Entity> {
    const now = this.clock.now();
    const details = { before: { revoked_at: null }, after: { revoked_at: now } };
    const event = this.toAuditEvent('revoked', credential, { actor, time: now, details });
    const revoked = await this.audit.execute(this.ends.revoke, [credential.id, now, actor.requestId], event);
    if (revoked.length === 0) this.audit.logOnly(event.event, actor, this.table.toLogFields(credential));
    return credential;
  }

  private toAuditEvent(
    act: 'updated' | 'rotated' | 'revoked',
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

const SERVICES = [Database, RevocationLease, Propagation, AuditLog, ComparedClock, Log, CountedRefusals] as const;
type Services = [Database, RevocationLease, Propagation, AuditLog, ComparedClock, Log, CountedRefusals];

export function provideKeyStore<Entity extends KeyColumns & KeyRestrictions>(
  token: symbol,
  entity: Type<Entity>,
  table: KeyKind,
): FactoryProvider {
  return {
    provide: token,
    inject: [getRepositoryToken(entity), ...SERVICES],
    useFactory: (repository: Repository<Entity>, ...services: Services) => {
      const [database, lease, propagation, audit, clock, log, refusals] = services;
      const verifier = new KeyVerifier(table, database, lease, clock, log, refusals);
      return new KeyStore(table, repository, database, verifier, propagation, audit, clock);
    },
  };
}
