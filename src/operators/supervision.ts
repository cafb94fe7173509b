import { Injectable } from '@nestjs/common';
import { DataSource, In, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import type { OperatorIdentity } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { problems } from '../problems/problems.js';
import { Operator, refuseMissing } from './operator.entity.js';
import { refuseMoreRights, RightsExceededError, type Rights } from './rights.js';
import { ScopeRefusals } from './scope-refusals.js';

/** The caller that manages operators. */
export interface Manager {
  /** Null for the root key. */
  readonly operator: OperatorIdentity | null;
  readonly actor: Actor;
}

/** A transaction that holds the locks. */
export interface Supervised {
  readonly transaction: EntityManager;
  /** The rights of the caller; undefined for the root key. */
  readonly own: Rights | undefined;
  readonly now: Date;
}

/** Runs what an operator does to operators under locks, with the rights that it has then. */
@Injectable()
export class Supervision {
  constructor(
    private readonly dataSource: DataSource,
    private readonly refusals: ScopeRefusals,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} exceeds_own_rights, after it was counted; the door's 401 when the caller has ended meanwhile */
  async add<Result>(by: Manager, act: (supervised: Supervised) => Promise<Result>): Promise<Result> {
    return this.run(by, undefined, (supervised) => act(supervised));
  }

  /** @throws {ProblemException} not_found; and as {@link add}, also when the operator has more rights than the caller */
  async manage<Result>(
    by: Manager,
    id: string,
    act: (supervised: Supervised, found: Operator) => Promise<Result>,
  ): Promise<Result> {
    return this.run(by, id, async (supervised, rows) => {
      const found = refuseMissing(rows.get(id.toLowerCase()));
      refuseMoreRights(supervised.own, found);
      return act(supervised, found);
    });
  }

  private async run<Result>(
    { operator, actor }: Manager,
    id: string | undefined,
    act: (supervised: Supervised, rows: ReadonlyMap<string, Operator>) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await this.dataSource.transaction(async (transaction) => {
        const rows = await lockOperators(transaction, [operator?.id, id]);
        const now = this.clock.now();
        const own = operator ? refuseEnded(rows.get(operator.id), now) : undefined;
        return act({ transaction, own, now }, rows);
      });
    } catch (error) {
      if (!(error instanceof RightsExceededError) || !operator) throw error;
      throw await this.refusals.count(operator, actor, 'grant', problems.exceedsOwnRights);
    }
  }
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

/** The caller was accepted at the door; what it does counts only if it still would be. */
function refuseEnded(caller: Operator | undefined, now: Date): Operator {
  const hasEnded = !caller || caller.revokedAt !== null;
  if (hasEnded) throw createRefusal('admin', 'revoked', { operator: caller?.name });
  if (caller.expiresAt && caller.expiresAt <= now) throw createRefusal('admin', 'expired', { operator: caller.name });
  if (!caller.scopes.includes('operators')) throw new RightsExceededError();
  return caller;
}
