/**
 * Operators: people and programs that present a key of their own at the admin door, with scopes. Names are unique among
 * operators that are not revoked. Rows are never deleted, because the audit log refers to them. Invariant: an operator
 * issues keys to, and changes, only operators with no more rights than itself; its own row is locked meanwhile, so that nothing it
 * does to operators is committed after its revocation has answered.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, type EntityManager, type Repository } from 'typeorm';
import type { Actor, OperatorIdentity } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { CountedRefusals, type CountedRefusal } from '../audit/counted-refusals.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { createId, isId } from '../../foundation/common/ids.js';
import type { Scope } from '../../foundation/common/names.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { type SecretDigest, ADMIN_KEY_PREFIX } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { getViolatedConstraint } from '../../foundation/database/database-failure.js';
import { findPage, type Page, type PageRequest } from '../../foundation/http/page.js';
import { buildRotation, isRefusal, determineKeyStatus } from '../keys/key-lifecycle.js';
import { findByDigests, issueKey, toKeyFilters, type IssuedCredential, type KeyFilter } from '../keys/key-record.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Operator } from './operator.entity.js';

const ROTATE = buildRotation('operators');

type Rights = Pick<Operator, 'scopes' | 'expiresAt'>;
export type OperatorChange = Partial<Rights>;

export interface AdminCaller {
  /** Null for the root key. */
  readonly operator: OperatorIdentity | null;
  readonly actor: Actor;
}

/** A transaction that holds the locks. */
interface OperatorTransaction {
  readonly transaction: EntityManager;
  readonly actor: Actor;
  /** The row of the caller; undefined for the root key. */
  readonly own: Operator | undefined;
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
  async issueOperator(
    { name, ...rights }: Pick<Operator, 'name' | 'scopes' | 'expiresAt'>,
    by: AdminCaller,
  ): Promise<IssuedCredential<Operator>> {
    const { key, keyDigest } = issueKey(ADMIN_KEY_PREFIX);
    try {
      return await this.runLocked(by, undefined, async (held) => {
        const { transaction, own, now } = held;
        refuseMoreRights(own, rights);
        const row = { id: createId(), name, ...rights, keyDigest, createdAt: now, updatedAt: now };
        const credential = this.operators.create(row);
        await transaction.insert(Operator, credential);
        const details = { after: { name, ...toChangeableFields(credential) } };
        await this.audit.record(transaction, toEvent(held, 'admin.operator.issued', credential, details));
        return { credential, key };
      });
    } catch (error) {
      if (getViolatedConstraint(error) === 'operators_live_name_key')
        throw new ProblemException(problems.operatorExists);
      throw error;
    }
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findOperator(id: string): Promise<Operator> {
    return refuseMissing(isId(id) ? await this.operators.findOneBy({ id }) : null);
  }

  async listOperators(page: PageRequest, filter: KeyFilter, name?: string): Promise<Page<Operator>> {
    return findPage(this.operators, page, { name }, toKeyFilters(filter, this.clock.now()));
  }

  async findByDigests(digests: SecretDigest[]): Promise<Operator[]> {
    return findByDigests(this.operators, digests);
  }

  /** @returns the ids of the operators that have, or had, this name */
  async listOperatorIds(name: string): Promise<string[]> {
    return (await this.operators.find({ where: { name }, select: { id: true } })).map(({ id }) => id);
  }

  /** Idempotent: a change that changes nothing is not recorded. */
  async updateOperator(id: string, change: OperatorChange, by: AdminCaller): Promise<Operator> {
    return this.changeOperator(by, id, async (held, before) => {
      const { transaction, own, now } = held;
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
      const after = { ...before, ...change, updatedAt: now };
      refuseMoreRights(own, after);
      const event = toEvent(held, 'admin.operator.updated', before);
      const fields = [toChangeableFields(before), toChangeableFields(after)] as const;
      if (!(await this.audit.recordChange(transaction, event, ...fields))) return before;
      await transaction.update(Operator, { id: before.id }, { ...change, updatedAt: now });
      return after;
    });
  }

  /** Has the overlap of the keys of nodes and apps (keys/key-store.ts): 0 hours end the old key at once. */
  async rotateOperatorKey(id: string, overlapHours: number, by: AdminCaller): Promise<IssuedCredential<Operator>> {
    const { key, keyDigest } = issueKey(ADMIN_KEY_PREFIX);
    return this.changeOperator(by, id, async (held, before) => {
      const { transaction } = held;
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
      const now = this.clock.trustedNow();
      if (before.expiresAt && before.expiresAt <= now) throw new ProblemException(problems.credentialExpired);
      const overlapEnds = addSeconds(now, overlapHours * 3_600);
      await transaction.query(ROTATE, [before.id, keyDigest, overlapEnds, now, by.actor.requestId]);
      const credential = await transaction.findOneByOrFail(Operator, { id: before.id });
      const details = { before: toRotationFields(before), after: toRotationFields(credential) };
      await this.audit.record(transaction, toEvent(held, 'admin.operator.rotated', before, details));
      return { credential, key };
    });
  }

  /** When it returns, no replica accepts the key: each reads the row at every call. */
  async revokeOperator(id: string, by: AdminCaller): Promise<void> {
    await this.changeOperator(by, id, async (held, { id: operatorId, revokedAt }) => {
      const { transaction, actor, now } = held;
      const event = toEvent(held, 'admin.operator.revoked', { id: operatorId });
      const after = { revoked_at: revokedAt ?? now };
      if (!(await this.audit.recordChange(transaction, event, { revoked_at: revokedAt }, after))) return;
      const change = { revokedAt: now, revokedByRequest: actor.requestId, updatedAt: now };
      await transaction.update(Operator, { id: operatorId }, change);
    });
  }

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
        return act({ transaction, actor, own, now }, rows);
      });
    } catch (error) {
      throw error instanceof RefusalToCountError ? await this.refusals.recordRefusal(error.refusal, actor) : error;
    }
  }
}

function toEvent(
  { actor, now }: OperatorTransaction,
  event: AuditEvent['event'],
  { id }: Pick<Operator, 'id'>,
  details?: AuditEvent['details'],
): AuditEvent {
  return { event, actor, time: now, subject: id, logFields: { operator_id: id }, ...(details && { details }) };
}

function toChangeableFields({ scopes, expiresAt }: Operator): Record<string, unknown> {
  return { scopes, expires_at: expiresAt };
}

function toRotationFields({ rotatedAt, previousKeyExpiresAt }: Operator): Record<string, unknown> {
  return { rotated_at: rotatedAt, previous_key_expires_at: previousKeyExpiresAt };
}

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
  const status = determineKeyStatus(keyDigest, caller, clock);
  if (!caller || status === 'unknown') throw createRefusal('admin', 'revoked', { operator: name });
  if (isRefusal(status)) throw createRefusal('admin', status, { operator: name });
  if (!caller.scopes.includes('operators')) throw new RefusalToCountError(describeMissingScope(caller, 'operators'));
  return caller;
}

/** Thrown in a transaction, and counted after the rollback, which would undo the count. */
class RefusalToCountError extends Error {
  override readonly name = 'RefusalToCountError';

  constructor(readonly refusal: CountedRefusal) {
    super(refusal.problem.code);
  }
}

/**
 * Against escalation. Without the bound of the expiry, an operator for one day could issue a key that never expires.
 * @param own undefined for the root key, which may give any rights
 * @throws {RefusalToCountError} for a scope that the caller lacks, and for a later expiry than its own
 */
function refuseMoreRights(own: Operator | undefined, given: Rights): void {
  if (!own) return;
  const hasEveryScope = given.scopes.every((scope) => own.scopes.includes(scope));
  const endsInTime = own.expiresAt === null || (given.expiresAt !== null && given.expiresAt <= own.expiresAt);
  if (hasEveryScope && endsInTime) return;
  throw new RefusalToCountError({ problem: problems.exceedsOwnRights, ...describeRefusal(own, 'grant') });
}

/** @param accepted of which the operator needs one */
export function describeMissingScope(
  operator: Pick<OperatorIdentity, 'id' | 'name'>,
  scope: Scope,
  accepted: readonly Scope[] = [scope],
): CountedRefusal {
  return { problem: problems.missingScope, members: { scopes: accepted }, ...describeRefusal(operator, scope) };
}

/** One audit row for each operator and window. */
function describeRefusal(
  { id, name }: Pick<OperatorIdentity, 'id' | 'name'>,
  reason: RefusalReason<'admin.scope.refused'>,
) {
  const fields = { operator_id: id, operator: name };
  return { refusal: { event: 'admin.scope.refused', reason, fields }, counted: `operator ${id}`, subject: id } as const;
}
