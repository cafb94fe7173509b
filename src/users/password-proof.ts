import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import type { RefusalReason } from '../common/security-events.js';
import { ProblemException, problems } from '../problems/problems.js';
import { LoginThrottle } from '../throttling/guess-throttles.js';
import { PasswordVerifier, type VerifiedUser } from './password-verifier.js';

/** What a route that asks for the password again may answer with. */
export const PASSWORD_PROOF_PROBLEMS = [problems.wrongPassword, problems.tooManyRequests, problems.hashingBusy];

/** The refusal of a password that a logged-in user entered again. Not a 401: the access token is valid. */
export function createWrongPassword(userId: string, reason: RefusalReason<'user.password.refused'>): ProblemException {
  const refusal = { event: 'user.password.refused', reason, fields: { user_id: userId } } as const;
  return new ProblemException(problems.wrongPassword, { refusal });
}

/**
 * Asks a logged-in user for the password again, before an act for which a stolen access token must not be enough. A wrong
 * one is throttled and counted in the audit log exactly as a failed login of the account.
 */
@Injectable()
export class PasswordProof {
  constructor(
    private readonly passwords: PasswordVerifier,
    private readonly throttle: LoginThrottle,
    private readonly refusals: CountedRefusals,
  ) {}

  /**
   * @param owner the principal of the user door
   * @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token when the account is
   * gone or disabled meanwhile, and its sessions with it
   */
  async verify(owner: { userId: string; email: string }, password: string, actor: Actor): Promise<VerifiedUser> {
    const { userId, email } = owner;
    const verdict = await this.throttle.countPasswordGuess(email, actor.address, (turn) =>
      this.passwords.verifyById(userId, password, turn),
    );
    if (verdict.valid) return verdict.user;
    if (verdict.reason !== 'wrong_password') throw createRefusal('user', 'session_ended', { user_id: userId });
    const counted = { reason: 'wrong_current_password', counted: email, subject: userId };
    await this.refusals.countRefusal({ event: 'user.login.failed', ...counted }, actor);
    throw createWrongPassword(userId, 'wrong_password');
  }
}
