import type { UserPrincipal } from '../access/principals.js';
import type { ProblemException } from '../problems/problems.js';
import { createWrongPassword, type VerifiedUser } from '../passwords/password-verifier.js';
import type { UserWithFactors } from './second-factors.service.js';

/** A user with the proven right to change their factors. Made from a proof only; void once the password has changed. */
export class ProvenOwner {
  private constructor(
    readonly userId: string,
    /** The session that asks. */
    readonly sessionId: string,
    /** As it was when the proof was verified. */
    readonly passwordChangedAt: Date | null,
    /** The answer when the password was changed since. */
    readonly createVoidError: () => ProblemException,
  ) {}

  static byPassword({ userId, sessionId }: UserPrincipal, { passwordChangedAt }: VerifiedUser): ProvenOwner {
    const createVoidError = (): ProblemException => createWrongPassword(userId, 'changed_meanwhile');
    return new ProvenOwner(userId, sessionId, passwordChangedAt, createVoidError);
  }

  /**
   * By the answer to a step that needed the password: to an enrolment, or to the options of a passkey.
   * @param user as it was read when the answer was verified
   * @param createVoidError of an answer to a step that is void
   */
  static byEarlierStep(
    { userId, sessionId }: UserPrincipal,
    { passwordChangedAt }: UserWithFactors,
    createVoidError: () => ProblemException,
  ): ProvenOwner {
    return new ProvenOwner(userId, sessionId, passwordChangedAt, createVoidError);
  }
}
