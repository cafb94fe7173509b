/**
 * Operators: people and programs that present a key of their own at the admin door, with scopes. Names are unique among
 * operators that are not revoked. Rows are never deleted, because the audit log refers to them. Invariant: an operator
 * makes and manages only operators with no more rights than itself; its own row is locked meanwhile, so that nothing it
 * does to operators is committed after its revocation has answered.
 */
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds, Clock } from '../common/clock.js';
import { createId, isId } from '../common/ids.js';
import type { Scope } from '../common/names.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { buildRotation } from '../keys/key-ends.js';
import { issueKey } from '../keys/key-table.js';
import { ProblemException, problems } from '../problems/problems.js';
import { OperatorTransactions, refuseMissing, type AdminCaller } from './operator-transactions.js';
import { Operator } from './operator.entity.js';
import { refuseMoreRights } from './rights.js';

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

@Injectable()
export class OperatorsService {
  constructor(
    @InjectRepository(Operator) private readonly operators: Repository<Operator>,
    private readonly audit: AuditLog,
    private readonly transactions: OperatorTransactions,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} operator_exists; exceeds_own_rights */
  async add(
    name: string,
    rights: { scopes: Scope[]; expiresAt: Date | null },
    by: AdminCaller,
  ): Promise<IssuedOperator> {
    const { key, columns } = issueKey(KEY_PREFIX);
    const now = this.clock.now();
    const row = { id: createId(), name, ...rights, ...columns, createdAt: now, updatedAt: now };
    const operator = this.operators.create(row);
    try {
      await this.transactions.add(by, async ({ transaction, own }) => {
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
  async find(id: string): Promise<Operator> {
    return refuseMissing(isId(id) ? await this.operators.findOneBy({ id }) : null);
  }

  async list(page: PageRequest, name?: string): Promise<Page<Operator>> {
    return findPage(this.operators, page, { name });
  }

  /** @returns the ids of the operators that have, or had, this name */
  async listIds(name: string): Promise<string[]> {
    return (await this.operators.find({ where: { name }, select: { id: true } })).map(({ id }) => id);
  }

  /**
   * Idempotent: a change that changes nothing is not recorded.
   * @throws {ProblemException} not_found; exceeds_own_rights; credential_revoked
   */
  async update(id: string, change: OperatorChange, by: AdminCaller): Promise<Operator> {
    return this.transactions.manage(by, id, async ({ transaction, own, now }, before) => {
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
   * Makes a new key that is valid at once. The last key that was used stays valid until the first use of the new one or
   * the end of the overlap, so a client may retry a rotation whose response was lost.
   * @param overlapHours 0 ends the old key at once
   * @throws {ProblemException} not_found; exceeds_own_rights; credential_revoked; credential_expired
   */
  async rotate(id: string, overlapHours: number, by: AdminCaller): Promise<IssuedOperator> {
    const { key, columns } = issueKey(KEY_PREFIX);
    return this.transactions.manage(by, id, async ({ transaction, now }, before) => {
      if (before.revokedAt) throw new ProblemException(problems.credentialRevoked);
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
  async revoke(id: string, by: AdminCaller): Promise<void> {
    await this.transactions.manage(by, id, async ({ transaction, now }, before) => {
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
