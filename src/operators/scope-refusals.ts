import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import type { OperatorIdentity } from '../access/principals.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import type { RefusalReason } from '../common/refusal-reasons.js';
import { ProblemException } from '../problems/problem.exception.js';
import type { Problem } from '../problems/problem.js';

const EVENT = 'admin.scope.refused';

/** Counts what operators tried beyond their scopes: one audit row for each operator and window. */
@Injectable()
export class ScopeRefusals {
  constructor(private readonly refusals: CountedRefusals) {}

  /**
   * @returns the problem that ends the request
   * @throws when the refusal cannot be counted: fails closed with 503
   */
  async count(
    { id, name }: OperatorIdentity,
    actor: Actor,
    reason: RefusalReason<typeof EVENT>,
    problem: Problem,
  ): Promise<ProblemException> {
    await this.refusals.count({ event: EVENT, reason, counted: `operator ${id}`, subject: id }, actor);
    return new ProblemException(problem, {
      refusal: { event: EVENT, reason, fields: { operator_id: id, operator: name } },
    });
  }
}
