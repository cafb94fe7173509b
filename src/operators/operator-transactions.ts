import { Injectable } from '@nestjs/common';
import { DataSource, In, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import type { OperatorIdentity } from '../access/principals.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { isRefusal, judgeKey, type KeyRow } from '../keys/key-ends.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Operator } from './operator.entity.js';
import {
  describeExceededRights,
  describeMissingScope,
  refuseMoreRights,
  RightsExceededError,
  ScopeLostError,
  type Rights,
} from './rights.js';

/** The caller at the admin door that manages operators. */
export interface AdminCaller {
  /** Null for the root key. */
  readonly operator: OperatorIdentity | null;
  readonly actor: Actor;
}

/** A transaction that holds the locks. */
export interface OperatorTransaction {
  readonly transaction: EntityManager;
  /** The rights of the caller; undefined for the root key. */
  readonly own: Rights | undefined;
  readonly now: Date;
}

/** Runs changes of operators under locks, with the rights that the caller has at that moment. */
@Injectable()
export class OperatorTransactions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly refusals: CountedRefusals,
    private readonly clock: Clock,
  ) {}

  /**
   * @throws {ProblemException} exceeds_own_rights, after it was counted; missing_scope, or the door's 401, when the caller
   *   has lost the scope, or has ended, meanwhile
   */
  async add<Result>(by: AdminCaller, act: (held: OperatorTransaction) => Promise<Result>): Promise<Result> {
    return this.run(by, undefined, act);
  }

  /** @throws {ProblemException} not_found; and as {@link add}, also when the operator has more rights than the caller */
  async manage<Result>(
    by: AdminCaller,
    id: string,
    act: (held: OperatorTransaction, found: Operator) => Promise<Result>,
  ): Promise<Result> {
    return this.run(by, id, async (held, rows) => {
      const found = refuseMissing(rows.get(id.toLowerCase()));
      refuseMoreRights(held.own, found);
      return act(held, found);
    });
  }

  private async run<Result>(
    { operator, actor }: AdminCaller,
    id: string | undefined,
    act: (held: OperatorTransaction, rows: ReadonlyMap<string, Operator>) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await this.dataSource.transaction(async (transaction) => {
        const rows = await lockOperators(transaction, [operator?.id, id]);
        const now = this.clock.now();
        const own = operator ? refuseEnded(operator, rows.get(operator.id), now) : undefined;
        return act({ transaction, own, now }, rows);
      });
    } catch (error) {
      // Counted after the rollback, which would undo the count.
      const refusal = operator && toRefusal(error, operator);
      throw refusal ? await this.refusals.recordRefusal(refusal, actor) : error;
    }
  }
}

/** @throws {ProblemException} not_found */
export function refuseMissing(operator: Operator | null | undefined): Operator {
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
function refuseEnded({ name, keyDigest }: OperatorIdentity, caller: Operator | undefined, now: Date): Operator {
  const judgement = judgeKey(keyDigest, caller && toKeyRow(caller), now);
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
