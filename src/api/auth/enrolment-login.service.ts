/**
 * Logins of users who have no second factor while SECOND_FACTOR_REQUIRED demands one: the right password gets a challenge
 * that begins and confirms the enrolment of an authenticator app, and nothing else. An ordinary login follows.
 */
import { Injectable } from '@nestjs/common';
import { toEnrolmentContext } from '../../domain/second-factors/challenge-contexts.js';
import { Challenges } from '../../domain/challenges/challenges.js';
import {
  RefusedProofError,
  SecondFactorsService,
  type UserWithFactors,
} from '../../domain/second-factors/second-factors.service.js';
import { TotpService, type TotpEnrolment } from '../../domain/second-factors/totp.service.js';
import type { VerifiedUser } from '../../domain/passwords/password-verifier.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import type { Actor } from '../../foundation/access/actor.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { SecondFactorLogins } from './second-factor-login.service.js';

@Injectable()
export class EnrolmentLogins {
  constructor(
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly logins: SecondFactorLogins,
    private readonly totp: TotpService,
    private readonly propagation: Propagation,
  ) {}

  /** @returns second_factor_enrolment_required, with a challenge that any change of password or factors voids */
  async createChallenge(verified: VerifiedUser): Promise<ProblemException> {
    const { id, passwordChangedAt, factorsChangedAt } = verified;
    // Read again, because the login may have rehashed the password.
    const { passwordHashDigest } = await this.factors.findUser(id);
    const context = toEnrolmentContext({ passwordChangedAt, factorsChangedAt, passwordHashDigest });
    const challenge = await this.challenges.issueChallenge('enrolment', id, context);
    return new ProblemException(problems.secondFactorEnrolmentRequired, {
      refusal: { event: 'user.login.challenged', reason: 'enrolment', fields: { user_id: id } },
      members: { challenge },
    });
  }

  /** May be repeated with the same challenge: the later secret replaces the former one. */
  async beginEnrolment(challenge: string, actor: Actor): Promise<TotpEnrolment> {
    return this.answerChallenge(challenge, actor, (user) => this.totp.enrolAtLogin(user, actor));
  }

  /**
   * Voids the challenge, because the account then has a factor. A refusal waits for propagation too, because an earlier
   * call, whose answer was lost, may have ended sessions and still be waiting.
   * @returns recovery codes
   */
  async confirmEnrolment({ challenge, code }: { challenge: string; code: string }, actor: Actor): Promise<string[]> {
    return this.propagation.propagateAfter(
      () => this.answerChallenge(challenge, actor, (user) => this.totp.confirmAtLogin(user, code, actor)),
      { waitsOnSuccess: false },
    );
  }

  private async answerChallenge<Result>(
    text: string,
    actor: Actor,
    act: (user: UserWithFactors) => Promise<Result>,
  ): Promise<Result> {
    return this.factors.answerRefusals(problems.invalidSecondFactor, actor, async () => {
      if (!this.factors.isFactorRequired()) throw new RefusedProofError('challenge');
      const { user } = await this.logins.openChallenge('enrolment', text);
      return act(user);
    });
  }
}
