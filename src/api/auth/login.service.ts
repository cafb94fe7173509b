/**
 * Logins, step by step: 1. the password, 2. the challenge of a user with a second factor, 3. the answer to it, or a passkey
 * alone, 4. the session. They begin in LoginService, at the end of this file. Invariants: a wrong password, an unknown
 * address and a disabled account have the same response and the same cost (user enumeration). A guess is reserved in a
 * throttle before it is verified, and settled by the verdict; for codes, in second-factors/codes.ts. Proofs are consumed in
 * the transaction that starts the session.
 */
import { Injectable } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import { CountedRefusals } from '../../domain/audit/counted-refusals.js';
import type { SecondFactorMethod } from '../../foundation/common/names.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { ProblemException, problems, type Problem } from '../../foundation/problems/problems.js';
import { Challenges, toPasswordContext, type PresentedChallenge } from '../../domain/second-factors/challenges.js';
import { CodeVerifier } from '../../domain/second-factors/codes.js';
import {
  mustVerifyEmail,
  RefusedProofError,
  SecondFactorsService,
  type UseProof,
  type UserWithFactors,
} from '../../domain/second-factors/second-factors.service.js';
import {
  parseAuthentication,
  readChallenge,
  RelyingParty,
  type PasskeyRequestOptionsResponse,
} from '../../domain/second-factors/webauthn.js';
import { LoginThrottle } from '../../foundation/throttling/guess-throttles.js';
import type { Amr, TokenPair } from '../../domain/tokens/access-tokens.js';
import { NewSessions } from '../../domain/tokens/new-sessions.js';
import { PasswordVerifier, type AccountState, type VerifiedUser } from '../../domain/passwords/password-verifier.js';

/** An answer to the challenge of a login. The code or the passkey is there, by the method. */
interface SecondFactorAnswer {
  readonly challenge: string;
  readonly method: SecondFactorMethod;
  readonly code?: string;
  readonly passkey?: object;
}

/** A login whose proofs are verified, and not consumed yet. */
interface VerifiedLogin {
  /** As it was when the proofs were verified. */
  readonly owner: AccountState;
  readonly challenge: PresentedChallenge;
  readonly useFactor: UseProof;
  readonly amr: Amr;
}

/** Steps 2 to 4 of a user with second factors, and of a login with a passkey alone. */
@Injectable()
export class SecondFactorLogins {
  constructor(
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly codes: CodeVerifier,
    private readonly relyingParty: RelyingParty,
    private readonly newSessions: NewSessions,
    private readonly environment: Environment,
  ) {}

  /** @returns second_factor_required, with a challenge that a change of the password voids */
  async createChallenge(verified: VerifiedUser, user?: UserWithFactors): Promise<ProblemException> {
    const { id } = verified;
    const current = user ?? (await this.factors.readUser(id));
    const methods = current ? this.factors.listMethods(current) : [];
    const challenge = await this.challenges.issueChallenge('login', id, toPasswordContext(verified));
    const passkey_options =
      current && methods.includes('passkey')
        ? this.relyingParty.createAuthenticationOptions(challenge, current.passkeys)
        : undefined;
    return new ProblemException(problems.secondFactorRequired, {
      refusal: { event: 'user.login.challenged', reason: 'second_factor', fields: { user_id: id } },
      members: { methods, challenge, ...(passkey_options && { passkey_options }) },
    });
  }

  /** @returns a challenge, if the user has added a factor since the password was verified, and kept that password */
  async createChallengeIfAdded(verified: VerifiedUser): Promise<ProblemException | undefined> {
    const user = await this.factors.readUser(verified.id);
    if (!user?.isActive || toPasswordContext(user) !== toPasswordContext(verified)) return undefined;
    return user.confirmedAt || user.passkeys.length > 0 ? this.createChallenge(verified, user) : undefined;
  }

  /** Verifies the answer to a challenge, and starts the session. */
  async logInWithSecondFactor(answer: SecondFactorAnswer, actor: Actor): Promise<TokenPair> {
    return this.factors.answerRefusals(problems.invalidSecondFactor, actor, async () => {
      const { challenge, user } = await this.openChallenge(answer.challenge);
      if (answer.method === 'passkey') {
        const { amr, useFactor } = await this.verifyPasskeyOf(user, answer);
        return this.startSession({ owner: user, challenge, useFactor, amr: ['pwd', amr, 'user', 'mfa'] }, actor);
      }
      return this.codes.acceptCode(answer.method, { user, code: answer.code ?? '', actor }, (useFactor) =>
        this.startSession({ owner: user, challenge, useFactor, amr: ['pwd', 'otp', 'mfa'] }, actor),
      );
    });
  }

  /** For a login with a passkey alone. Nothing is known of the user, so every client gets the same options. */
  async createPasskeyOptions(): Promise<PasskeyRequestOptionsResponse> {
    return this.relyingParty.createAuthenticationOptions(await this.challenges.issueChallenge('passkey'));
  }

  /** Verifies the answer of a passkey to the options of a login with a passkey alone, and starts the session. */
  async logInWithPasskey(answer: object, actor: Actor): Promise<TokenPair> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    return this.factors.answerRefusals(problems.invalidPasskey, actor, async () => {
      const response = parseAuthentication(answer);
      const text = readChallenge(response);
      const challenge = this.challenges.parseChallenge('passkey', text);
      const isValid = challenge && this.challenges.isBoundTo(challenge) && (await this.challenges.isCurrent(challenge));
      if (!isValid) throw new RefusedProofError('challenge');
      const { owner, amr, useFactor } = await this.relyingParty.verifyPasskey(response, text);
      return this.startSession({ owner, challenge, useFactor, amr: [amr, 'user', 'mfa'] }, actor);
    });
  }

  /**
   * Starts the session and consumes the proofs in one transaction. Of concurrent answers to one challenge, and of concurrent
   * uses of one factor, one begins a session.
   */
  private async startSession({ owner, challenge, useFactor, amr }: VerifiedLogin, actor: Actor): Promise<TokenPair> {
    const useProofs: UseProof = async (transaction) => {
      const isFirstUse = await this.challenges.consumeChallenge(transaction, challenge);
      if (!isFirstUse) throw new RefusedProofError('challenge', owner.id);
      await useFactor(transaction);
      // Checked last, so that only a client with valid proofs learns it. The transaction rolls their use back.
      if (mustVerifyEmail(this.environment, owner)) throw new RefusedProofError('email_not_verified', owner.id);
    };
    const tokens = await this.newSessions.startSession({ owner, actor, amr, useProofs });
    if (!tokens) throw new RefusedProofError('changed_meanwhile', owner.id);
    return tokens;
  }

  /** A forged challenge is refused before the account is read: the time to refuse it tells nothing about the id in it. */
  private async openChallenge(text: string): Promise<{ challenge: PresentedChallenge; user: UserWithFactors }> {
    const challenge = this.challenges.parseChallenge('login', text);
    if (!challenge) throw new RefusedProofError('challenge');
    const [user, isCurrent] = await Promise.all([
      this.factors.readUser(challenge.userId),
      this.challenges.isCurrent(challenge),
    ]);
    if (!user || !isCurrent || !this.challenges.isBoundTo(challenge, toPasswordContext(user)))
      throw new RefusedProofError('challenge');
    if (!user.isActive) throw new RefusedProofError('disabled', user.id);
    return { challenge, user };
  }

  private async verifyPasskeyOf(user: UserWithFactors, { challenge, passkey = {} }: SecondFactorAnswer) {
    const response = parseAuthentication(passkey);
    const isAnswer = this.factors.listMethods(user).includes('passkey') && readChallenge(response) === challenge;
    if (!isAnswer) throw new RefusedProofError('wrong_passkey', user.id);
    return this.relyingParty.verifyPasskey(response, challenge, user.id);
  }
}

/** Step 1, and step 4 of a user without second factors. */
@Injectable()
export class LoginService {
  constructor(
    private readonly passwords: PasswordVerifier,
    private readonly throttle: LoginThrottle,
    private readonly refusals: CountedRefusals,
    private readonly secondFactors: SecondFactorLogins,
    private readonly newSessions: NewSessions,
    private readonly environment: Environment,
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
    if (mustVerifyEmail(this.environment, user))
      return refuse('email_not_verified', user.id, problems.emailNotVerified);
    if (user.hasSecondFactor) throw await this.secondFactors.createChallenge(user);
    const tokens = await this.newSessions.startSession({ owner: user, actor, amr: ['pwd'] });
    if (tokens) return tokens;
    const challenge = await this.secondFactors.createChallengeIfAdded(user);
    if (challenge) throw challenge;
    return refuse('changed_meanwhile', user.id);
  }
}
