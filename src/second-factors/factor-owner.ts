import type { UserPrincipal } from '../access/principals.js';
import type { ProblemException } from '../problems/problem.exception.js';
import { createWrongPassword } from '../users/password-proof.js';
import type { VerifiedUser } from '../users/password-verifier.js';
import type { UserWithFactors } from './second-factors.service.js';

/** The user who changes the own factors. It is made of a proof alone, and void once the account has another password. */
export class FactorOwner {
  private constructor(
    readonly userId: string,
    /** The session that asks. */
    readonly sessionId: string,
    /** As it was when the proof was verified. */
    readonly passwordChangedAt: Date | null,
    /** The answer when the password was changed since. */
    readonly createRefusal: () => ProblemException,
  ) {}

  static byPassword({ userId, sessionId }: UserPrincipal, { passwordChangedAt }: VerifiedUser): FactorOwner {
    const createRefusal = (): ProblemException => createWrongPassword(userId, 'changed_meanwhile');
    return new FactorOwner(userId, sessionId, passwordChangedAt, createRefusal);
  }

  /**
   * By the answer to a step that needed the password: to an enrolment, or to the options of a passkey.
   * @param user as it was read when the answer was verified
   * @param createRefusal of an answer to a step that is void
   */
  static byEarlierStep(
    { userId, sessionId }: UserPrincipal,
    { passwordChangedAt }: UserWithFactors,
    createRefusal: () => ProblemException,
  ): FactorOwner {
    return new FactorOwner(userId, sessionId, passwordChangedAt, createRefusal);
  }
}
