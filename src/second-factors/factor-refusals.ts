import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { toNetwork } from '../common/network.js';
import type { RefusalReason } from '../common/security-events.js';
import { type Problem, ProblemException, problems } from '../problems/problems.js';

const EVENT = 'user.second_factor.failed';
export type FactorReason = RefusalReason<typeof EVENT>;

/** Thrown in the transaction that a proof authorises, to roll it back. */
export class RefusedProofError extends Error {
  override readonly name = 'RefusedProofError';

  constructor(readonly reason: FactorReason) {
    super(reason);
  }
}

/**
 * Consumes a proof (a code, the counter of a passkey) in the transaction of the act that it authorises: both are committed,
 * or neither.
 * @throws {RefusedProofError} when it was used before; for a code, an error that {@link CodeVerifier} counts
 */
export type UseProof = (transaction: EntityManager) => Promise<void>;

/**
 * The refusal of a code for an enrolment that another password has voided while the code was verified. It is not counted,
 * since it costs no guess.
 */
export function createVoidEnrolmentRefusal(userId: string): ProblemException {
  const refusal = { event: EVENT, reason: 'changed_meanwhile', fields: { user_id: userId } } as const;
  return new ProblemException(problems.wrongSecondFactor, { refusal });
}

/** Refuses second factors: counted by user in the audit log as wrong passwords are, or by network without one. */
@Injectable()
export class FactorRefusals {
  constructor(private readonly refusals: CountedRefusals) {}

  /**
   * @param userId undefined while the challenge is not verified: a client could name any user
   * @throws {ProblemException} the problem
   */
  async refuse(problem: Problem, reason: FactorReason, actor: Actor, userId?: string): Promise<never> {
    const counted = userId ?? toNetwork(actor.address);
    const refusal = { event: EVENT, reason, fields: { user_id: userId } } as const;
    throw await this.refusals.recordRefusal({ problem, refusal, counted, subject: userId }, actor);
  }
}
