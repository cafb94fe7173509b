/**
 * Logins, step by step: 1. verify the password, 2. challenge a user with a second factor, 3. verify the answer, or a passkey
 * alone, 4. start the session. Steps 2 and 3 are in second-factor-login.service.ts; enrolment-login.service.ts is for users
 * who must add a factor first. Invariant: an unknown address, a wrong password and a disabled account have the same
 * response, and each costs a read and a bcrypt (user enumeration).
 */
import { Injectable } from '@nestjs/common';
import { CountedRefusals } from '../../domain/audit/counted-refusals.js';
import { PasswordVerifier } from '../../domain/passwords/password-verifier.js';
import { SecondFactorsService } from '../../domain/second-factors/second-factors.service.js';
import type { TokenPair } from '../../domain/tokens/access-tokens.js';
import { NewSessions } from '../../domain/tokens/new-sessions.js';
import type { Actor } from '../../foundation/access/actor.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { problems, type Problem } from '../../foundation/problems/problems.js';
import { LoginThrottle } from '../../foundation/throttling/guess-throttles.js';
import { EnrolmentLogins } from './enrolment-login.service.js';
import { SecondFactorLogins } from './second-factor-login.service.js';

@Injectable()
export class LoginService {
  constructor(
    private readonly passwords: PasswordVerifier,
    private readonly throttle: LoginThrottle,
    private readonly refusals: CountedRefusals,
    private readonly secondFactors: SecondFactorsService,
    private readonly factorLogins: SecondFactorLogins,
    private readonly enrolments: EnrolmentLogins,
    private readonly newSessions: NewSessions,
  ) {}

  async logInWithPassword(
    { email, password }: { readonly email: string; readonly password: string },
    actor: Actor,
  ): Promise<TokenPair> {
    const verdict = await this.throttle.countPasswordGuess(email, actor.address, (ticket) =>
      this.passwords.verifyPassword(email, password, ticket),
    );
    const refuse = async (
      reason: RefusalReason<'user.login.failed'>,
      userId: string | undefined,
      problem: Problem = problems.invalidCredentials,
    ): Promise<never> => {
      const refusal = { event: 'user.login.failed', reason, fields: { user_id: userId } } as const;
      throw await this.refusals.recordRefusal({ problem, refusal, counted: email, subject: userId }, actor);
    };
    if (!verdict.valid) return refuse(verdict.reason, verdict.userId);
    const { user } = verdict;
    if (this.secondFactors.isVerificationMissing(user))
      return refuse('email_not_verified', user.id, problems.emailNotVerified);
    if (user.hasSecondFactor) throw await this.factorLogins.createChallenge(user);
    if (this.secondFactors.isFactorRequired()) throw await this.enrolments.createChallenge(user);
    const tokens = await this.newSessions.startSession({ owner: user, actor, amr: ['pwd'] });
    if (tokens) return tokens;
    const challenge = await this.factorLogins.createChallengeIfAdded(user);
    if (challenge) throw challenge;
    return refuse('changed_meanwhile', user.id);
  }
}
