/**
 * Operators: people and programs that present a key of their own at the admin door, with scopes. Names are unique among
 * operators that are not revoked. Rows are never deleted, because the audit log refers to them. Invariant: an operator
 * registers and changes only operators with no more rights than itself; its own row is locked meanwhile, so that nothing it
 * does to operators is committed after its revocation has answered.
 */
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Check, Column, Entity, In, Index, PrimaryColumn, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import type { OperatorIdentity } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { addSeconds } from '../common/clock.js';
import { createId, isId } from '../common/ids.js';
import type { Scope } from '../common/names.js';
import { ComparedClock } from '../database/compared-clock.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { issueKey, KeyColumns } from '../keys/key-table.js';
import { isRefusal, judgeKey, buildRotation, type KeyRow } from '../keys/key-ends.js';
import { ProblemException, problems } from '../problems/problems.js';
import {
  describeExceededRights,
  describeMissingScope,
  refuseMoreRights,
  RightsExceededError,
  ScopeLostError,
  type Rights,
} from './operator-rights.js';

/** A person or a program with a key of its own for the admin door. */
@Entity('operators')
@Index('operators_live_name_key', ['name'], { unique: true, where: 'revoked_at IS NULL' })
@Index('operators_key_digest_key', ['keyDigest'], { unique: true })
@Index('operators_previous_key_digest_idx', ['previousKeyDigest'], { where: 'previous_key_digest IS NOT NULL' })
@Check('operators_name_check', 'name = lower(name)')
@Check('operators_scopes_check', 'cardinality(scopes) > 0')
export class Operator extends KeyColumns {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'operators_pkey' })
  declare id: string;

  /** Canonical. It does not change. */
  @Column({ type: 'text' })
  name!: string;

  @Column({ type: 'text', array: true })
  scopes!: Scope[];
}

const KEY_PREFIX = 'pa_admin_';
const ROTATE = buildRotation('operators');

export interface IssuedOperator {
  readonly operator: Operator;
  /** In plain text: the only time. */
  readonly key: string;
}

export interface OperatorChange {
  readonly scopes?: Scope[];
  readonly expiresAt?: Date | null;
}

/** The caller at the admin door that manages operators. */
export interface AdminCaller {
  /** Null for the root key. */
  readonly operator: OperatorIdentity | null;
  readonly actor: Actor;
}

/** A transaction that holds the locks. */
interface OperatorTransaction {
  readonly transaction: EntityManager;
  /** The rights of the caller; undefined for the root key. */
  readonly own: Rights | undefined;
  readonly now: Date;
}

@Injectable()
export class OperatorsService {
  constructor(
    @InjectRepository(Operator) private readonly operators: Repository<Operator>,
    private readonly audit: AuditLog,
    private readonly refusals: CountedRefusals,
    private readonly clock: ComparedClock,
  ) {}

  /** @throws {ProblemException} operator_exists; exceeds_own_rights */
  async registerOperator(
    { name, ...rights }: Pick<Operator, 'name' | 'scopes' | 'expiresAt'>,
    by: AdminCaller,
  ): Promise<IssuedOperator> {
    const { key, columns } = issueKey(KEY_PREFIX);
    const now = this.clock.now();
    const row = { id: createId(), name, ...rights, ...columns, createdAt: now, updatedAt: now };
    const operator = this.operators.create(row);
    try {
      await this.runLocked(by, undefined, async ({ transaction, own }) => {
        refuseMoreRights(own, rights);
        await transaction.insert(Operator, operator);
        const details = { after: { name, ...toChangeableFields(operator) } };
        await this.record(transaction, 'admin.operator.added', operator, { actor: by.actor, time: now, details });
      });
    } catch (error) {
      if (getViolatedConstraint(error) === 'operators_live_name_key')
        throw new ProblemException(problems.operatorExists);
      throw error;
    }
    return { operator, key };
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findOperator(id: string): Promise<Operator> {
    return refuseMissing(isId(id) ? await this.operators.findOneBy({ id }) : null);
  }

  async listOperators(page: PageRequest, name?: string): Promise<Page<Operator>> {
    return findPage(this.operators, page, { name });
  }

  /** @returns the ids of the operators that have, or had, this name */
  async listOperatorIds(name: string): Promise<string[]> {
    return (await this.operators.find({ where: { name }, select: { id: true } })).map(({ id }) => id);
  }

  /**
   * Idempotent: a change that changes nothing is not recorded.
   * @throws {ProblemException} not_found; exceeds_own_rights; credential_revoked
   */
  async updateOperator(id: string, change: OperatorChange, by: AdminCaller): Promise<Operator> {
    return this.changeOperator(by, id, async ({ transaction, own, now }, before) => {
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
      const after = { ...before, ...change, updatedAt: now };
      refuseMoreRights(own, after);
      const details = { before: toChangeableFields(before), after: toChangeableFields(after) };
      if (isDeepStrictEqual(details.before, details.after)) {
        this.audit.logOnly('admin.operator.updated', by.actor, { operator_id: before.id });
        return before;
      }
      await transaction.update(Operator, { id: before.id }, { ...change, updatedAt: now });
      await this.record(transaction, 'admin.operator.updated', before, { actor: by.actor, time: now, details });
      return after;
    });
  }

  /**
   * Issues a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @throws {ProblemException} not_found; exceeds_own_rights; credential_revoked; credential_expired
   */
  async rotateOperatorKey(id: string, overlapHours: number, by: AdminCaller): Promise<IssuedOperator> {
    const { key, columns } = issueKey(KEY_PREFIX);
    return this.changeOperator(by, id, async ({ transaction }, before) => {
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
      const now = this.clock.trustedNow();
      if (before.expiresAt && before.expiresAt <= now) throw new ProblemException(problems.credentialExpired);
      const overlapEnds = addSeconds(now, overlapHours * 3_600);
      await transaction.query(ROTATE, [before.id, columns.keyDigest, overlapEnds, now, by.actor.requestId]);
      const operator = await transaction.findOneByOrFail(Operator, { id: before.id });
      const details = { before: toRotationFields(before), after: toRotationFields(operator) };
      await this.record(transaction, 'admin.operator.rotated', before, { actor: by.actor, time: now, details });
      return { operator, key };
    });
  }

  /**
   * When it returns, no replica accepts the key: each reads the row at every call. Idempotent: the first revocation is
   * the recorded one.
   * @throws {ProblemException} not_found; exceeds_own_rights
   */
  async revokeOperator(id: string, by: AdminCaller): Promise<void> {
    await this.changeOperator(by, id, async ({ transaction, now }, before) => {
      if (before.revokedAt) {
        this.audit.logOnly('admin.operator.revoked', by.actor, { operator_id: before.id });
        return;
      }
      const change = { revokedAt: now, revokedByRequest: by.actor.requestId, updatedAt: now };
      await transaction.update(Operator, { id: before.id }, change);
      const details = { before: { revoked_at: null }, after: { revoked_at: now } };
      await this.record(transaction, 'admin.operator.revoked', before, { actor: by.actor, time: now, details });
    });
  }

  /** @throws {ProblemException} not_found; and as {@link runLocked}, also when the operator has more rights than the caller */
  private async changeOperator<Result>(
    by: AdminCaller,
    id: string,
    act: (held: OperatorTransaction, found: Operator) => Promise<Result>,
  ): Promise<Result> {
    return this.runLocked(by, id, async (held, rows) => {
      const found = refuseMissing(rows.get(id.toLowerCase()));
      refuseMoreRights(held.own, found);
      return act(held, found);
    });
  }

  /**
   * @throws {ProblemException} exceeds_own_rights, after it was counted; missing_scope, or the door's 401, when the caller
   * has lost the scope, or was revoked, meanwhile
   */
  private async runLocked<Result>(
    { operator, actor }: AdminCaller,
    id: string | undefined,
    act: (held: OperatorTransaction, rows: ReadonlyMap<string, Operator>) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await this.operators.manager.transaction(async (transaction) => {
        const rows = await lockOperators(transaction, [operator?.id, id]);
        const now = this.clock.now();
        const own = operator ? refuseEnded(operator, rows.get(operator.id), this.clock) : undefined;
        return act({ transaction, own, now }, rows);
      });
    } catch (error) {
      // Counted after the rollback, which would undo the count.
      const refusal = operator && toRefusal(error, operator);
      throw refusal ? await this.refusals.recordRefusal(refusal, actor) : error;
    }
  }

  private async record(
    transaction: EntityManager,
    event: AuditEvent['event'],
    { id }: Operator,
    rest: Pick<AuditEvent, 'actor' | 'time' | 'details'>,
  ): Promise<void> {
    await this.audit.record(transaction, { event, subject: id, logFields: { operator_id: id }, ...rest });
  }
}

function toChangeableFields({ scopes, expiresAt }: Operator): Record<string, unknown> {
  return { scopes, expires_at: expiresAt };
}

function toRotationFields({ rotatedAt, previousKeyExpiresAt }: Operator): Record<string, unknown> {
  return { rotated_at: rotatedAt, previous_key_expires_at: previousKeyExpiresAt };
}

/** @throws {ProblemException} not_found */
function refuseMissing(operator: Operator | null | undefined): Operator {
  if (!operator) throw new ProblemException(problems.notFound);
  return operator;
}

/** Ordered by id, so that two operators that manage each other cannot deadlock. */
async function lockOperators(
  transaction: EntityManager,
  ids: readonly (string | undefined)[],
): Promise<Map<string, Operator>> {
  const valid = ids.filter((id) => id !== undefined && isId(id));
  const lock = { mode: 'pessimistic_write' } as const;
  const rows = await transaction.find(Operator, { where: { id: In(valid) }, order: { id: 'ASC' }, lock });
  return new Map(rows.map((row) => [row.id, row]));
}

/** The door accepted the caller's key before the lock was taken: it must still be valid. */
function refuseEnded(
  { name, keyDigest }: OperatorIdentity,
  caller: Operator | undefined,
  clock: ComparedClock,
): Operator {
  const judgement = judgeKey(keyDigest, caller && toKeyRow(caller), clock);
  if (!caller || judgement === 'unknown') throw createRefusal('admin', 'revoked', { operator: name });
  if (isRefusal(judgement)) throw createRefusal('admin', judgement, { operator: name });
  if (!caller.scopes.includes('operators')) throw new ScopeLostError();
  return caller;
}

function toKeyRow(operator: Operator): KeyRow {
  return {
    id: operator.id,
    key_digest: operator.keyDigest,
    previous_key_digest: operator.previousKeyDigest,
    previous_key_expires_at: operator.previousKeyExpiresAt,
    expires_at: operator.expiresAt,
    revoked_at: operator.revokedAt,
  };
}

function toRefusal(error: unknown, operator: OperatorIdentity) {
  if (error instanceof RightsExceededError) return describeExceededRights(operator);
  return error instanceof ScopeLostError ? describeMissingScope(operator, 'operators') : undefined;
}
