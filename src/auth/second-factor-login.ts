import { Injectable } from '@nestjs/common';
import { toUserActor, type Actor } from '../access/actor.js';
import { Environment } from '../config/environment.js';
import { DatabaseClock } from '../database/database.js';
import { type Problem, ProblemException, problems } from '../problems/problems.js';
import { Challenges, toPasswordContext, type PresentedChallenge } from '../second-factors/challenges.js';
import { CodeVerifier } from '../second-factors/code-verifier.js';
import {
  FactorRefusals,
  RefusedProofError,
  type FactorReason,
  type UseProof,
} from '../second-factors/factor-refusals.js';
import { PasskeyVerifier, type PasskeyOwner, type PasskeyVerdict } from '../second-factors/passkey-verifier.js';
import { RelyingParty } from '../second-factors/relying-party.js';
import { SecondFactorsService, type UserWithFactors } from '../second-factors/second-factors.service.js';
import type { PasskeyRequestOptionsResponse } from '../second-factors/webauthn-options.dto.js';
import { parseAuthentication, readChallenge } from '../second-factors/webauthn-json.js';
import { AccessTokens, type TokenPair } from '../tokens/access-tokens.js';
import { NewSessions, type Amr } from '../tokens/new-sessions.js';
import type { VerifiedUser } from '../passwords/password-verifier.js';
import type { SecondFactorRequest } from './second-factor.dto.js';

/** A login whose proofs are verified, and not consumed yet. */
interface VerifiedLogin {
  /** As it was when the proofs were verified. */
  readonly owner: PasskeyOwner;
  readonly challenge: PresentedChallenge;
  readonly amr: Amr;
  readonly useFactor: UseProof;
  readonly refusal: Problem;
}

/** Logins with a second factor, and with a passkey alone. */
@Injectable()
export class SecondFactorLogin {
  constructor(
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly codes: CodeVerifier,
    private readonly passkeys: PasskeyVerifier,
    private readonly relyingParty: RelyingParty,
    private readonly refusals: FactorRefusals,
    private readonly newSessions: NewSessions,
    private readonly accessTokens: AccessTokens,
    private readonly clock: DatabaseClock,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} second_factor_required, with a challenge that a change of the password voids */
  async refuseWithChallenge(verified: VerifiedUser): Promise<never> {
    throw await this.toChallenge(verified, await this.factors.read(verified.id));
  }

  /**
   * To be called when no session could begin.
   * @throws {ProblemException} second_factor_required, if the user has one by now and still the password that was verified
   */
  async refuseIfAdded(verified: VerifiedUser): Promise<void> {
    const user = await this.factors.read(verified.id);
    if (!user?.isActive || toPasswordContext(user) !== toPasswordContext(verified)) return;
    if (user.confirmedAt || user.passkeys.length > 0) throw await this.toChallenge(verified, user);
  }

  /**
   * @throws {ProblemException} invalid_second_factor; validation_failed; email_not_verified; too_many_requests; hashing_busy; unavailable;
   * totp_secret_unreadable
   */
  async logInWithAnswer(request: SecondFactorRequest, actor: Actor): Promise<TokenPair> {
    const { challenge, user } = await this.openChallenge(request.challenge, actor);
    const refusal = problems.invalidSecondFactor;
    const { method, code = '', passkey = {} } = request;
    if (method === 'passkey') return this.answerWithPasskey(user, challenge, passkey, request.challenge, actor);
    const presented = { user, code, actor, refusal };
    const start = (useFactor: UseProof): Promise<TokenPair> =>
      this.startSession({ owner: user, challenge, amr: ['pwd', 'otp', 'mfa'], useFactor, refusal }, actor);
    return method === 'totp'
      ? this.codes.acceptTotp(presented, start)
      : this.codes.acceptRecoveryCode(presented, start);
  }

  /**
   * The options of a login with a passkey alone. They are the same for every client: nothing is known of the user.
   * @throws {ProblemException} not_found without WEBAUTHN_RP_ID
   */
  async createPasskeyOptions(): Promise<PasskeyRequestOptionsResponse> {
    const challenge = this.challenges.issue('passkey', await this.clock.now());
    return this.relyingParty.createAuthenticationOptions(challenge);
  }

  /** @throws {ProblemException} invalid_passkey; validation_failed; email_not_verified; not_found without WEBAUTHN_RP_ID */
  async logInWithPasskey(answer: object, actor: Actor): Promise<TokenPair> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    const refusal = problems.invalidPasskey;
    const response = parseAuthentication(answer);
    const text = readChallenge(response);
    const challenge = this.challenges.read('passkey', text);
    if (!challenge || !this.challenges.isValid(challenge, await this.clock.now()))
      return this.refusals.refuse(refusal, 'challenge', actor);
    const verdict = await this.passkeys.verify(response, text);
    if (!verdict.valid) return this.refusePasskey(refusal, verdict, actor);
    const { owner, proof, useFactor } = verdict;
    return this.startSession({ owner, challenge, amr: [proof, 'user', 'mfa'], useFactor, refusal }, actor);
  }

  private async toChallenge(verified: VerifiedUser, user: UserWithFactors | undefined): Promise<ProblemException> {
    const { id } = verified;
    const methods = user ? this.factors.listMethods(user) : [];
    const challenge = this.challenges.issue('login', await this.clock.now(), id, toPasswordContext(verified));
    const passkey_options =
      user && methods.includes('passkey')
        ? this.relyingParty.createAuthenticationOptions(challenge, user.passkeys)
        : undefined;
    return new ProblemException(problems.secondFactorRequired, {
      refusal: { event: 'user.login.challenged', reason: 'second_factor', fields: { user_id: id } },
      members: { methods, challenge, ...(passkey_options && { passkey_options }) },
    });
  }

  /**
   * Without a valid challenge nothing is known of the client, and the refusal is counted by its network. A forged one is
   * refused before the account is read, so that its timing reveals nothing about the id in it.
   */
  private async openChallenge(
    text: string,
    actor: Actor,
  ): Promise<{ challenge: PresentedChallenge; user: UserWithFactors }> {
    const challenge = this.challenges.read('login', text);
    if (!challenge) return this.refusals.refuse(problems.invalidSecondFactor, 'challenge', actor);
    const [user, now] = await Promise.all([this.factors.read(challenge.userId), this.clock.now()]);
    if (!user || !this.challenges.isValid(challenge, now, toPasswordContext(user)))
      return this.refusals.refuse(problems.invalidSecondFactor, 'challenge', actor);
    if (!user.isActive) return this.refusals.refuse(problems.invalidSecondFactor, 'disabled', actor, user.id);
    return { challenge, user };
  }

  private async answerWithPasskey(
    user: UserWithFactors,
    challenge: PresentedChallenge,
    answer: object,
    text: string,
    actor: Actor,
  ): Promise<TokenPair> {
    const refusal = problems.invalidSecondFactor;
    const response = parseAuthentication(answer);
    const isAnswer = this.canUsePasskey(user) && readChallenge(response) === text;
    const verdict = isAnswer
      ? await this.passkeys.verify(response, text, user.id)
      : ({ valid: false, reason: 'wrong_passkey' } as const);
    if (!verdict.valid) return this.refusePasskey(refusal, { ...verdict, userId: user.id }, actor);
    const { proof, useFactor } = verdict;
    return this.startSession({ owner: user, challenge, amr: ['pwd', proof, 'user', 'mfa'], useFactor, refusal }, actor);
  }

  private canUsePasskey(user: UserWithFactors): boolean {
    return this.factors.listMethods(user).includes('passkey');
  }

  private refusePasskey(
    problem: Problem,
    { reason, userId }: Extract<PasskeyVerdict, { valid: false }>,
    actor: Actor,
  ): Promise<never> {
    return this.refusals.refuse(problem, reason, actor, userId);
  }

  /**
   * Starts the session and consumes the challenge and the factor, in one transaction. Of concurrent answers to one
   * challenge, and of concurrent uses of one factor, one begins a session.
   */
  private async startSession(login: VerifiedLogin, actor: Actor): Promise<TokenPair> {
    const { owner, challenge, amr, useFactor, refusal } = login;
    const refuse = (reason: FactorReason): Promise<never> =>
      this.refusals.refuse(
        reason === 'email_not_verified' ? problems.emailNotVerified : refusal,
        reason,
        actor,
        owner.id,
      );
    const useProofs: UseProof = async (transaction) => {
      if (!(await this.challenges.use(transaction, challenge))) throw new RefusedProofError('challenge');
      await useFactor(transaction);
      if (this.environment.requireVerifiedEmail && owner.emailVerifiedAt === null)
        throw new RefusedProofError('email_not_verified');
    };
    const sign = await this.accessTokens.prepareSigning();
    try {
      const grant = await this.newSessions.startSession({ owner, actor: toUserActor(actor, owner.id), amr, useProofs });
      return grant ? sign(grant) : await refuse('changed_meanwhile');
    } catch (error) {
      if (error instanceof RefusedProofError) return refuse(error.reason);
      // A WrongCodeError too: the throttle counts it.
      throw error;
    }
  }
}
