import { Injectable } from '@nestjs/common';
import { toUserActor, type Actor } from '../access/actor.js';
import { Environment } from '../config/environment.js';
import { DatabaseClock } from '../database/database-clock.js';
import type { Problem } from '../problems/problem.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { Challenges, toPasswordContext, type PresentedChallenge } from '../second-factors/challenges.js';
import { CodeVerifier } from '../second-factors/code-verifier.js';
import { FactorRefusals } from '../second-factors/factor-refusals.js';
import { PasskeyVerifier, type PasskeyVerdict } from '../second-factors/passkey-verifier.js';
import { RelyingParty } from '../second-factors/relying-party.js';
import { SecondFactors, type Factors } from '../second-factors/second-factors.service.js';
import type { PasskeyRequestOptionsResponse } from '../second-factors/webauthn-options.dto.js';
import { parseAuthentication, readChallenge } from '../second-factors/webauthn-json.js';
import type { Amr, Grant } from '../tokens/grant.js';
import { SessionsService } from '../tokens/sessions.service.js';
import type { VerifiedUser } from '../users/password-verifier.js';
import type { SecondFactorRequest } from './second-factor.dto.js';

/** Logins that need more than a password, or another thing than a password. */
@Injectable()
export class SecondFactorLogin {
  constructor(
    private readonly factors: SecondFactors,
    private readonly challenges: Challenges,
    private readonly codes: CodeVerifier,
    private readonly passkeys: PasskeyVerifier,
    private readonly relyingParty: RelyingParty,
    private readonly refusals: FactorRefusals,
    private readonly sessions: SessionsService,
    private readonly clock: DatabaseClock,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} second_factor_required, with a challenge that a change of the password voids */
  async demand(verified: VerifiedUser): Promise<never> {
    const { id } = verified;
    const user = await this.factors.read(id);
    const methods = user ? this.factors.listMethods(user) : [];
    const challenge = this.challenges.issue('login', await this.clock.now(), id, toPasswordContext(verified));
    const passkey_options =
      user && methods.includes('passkey')
        ? this.relyingParty.createAuthenticationOptions(challenge, user.passkeys)
        : undefined;
    throw new ProblemException(problems.secondFactorRequired, {
      refusal: { event: 'user.login.challenged', reason: 'second_factor', fields: { user_id: id } },
      members: { methods, challenge, ...(passkey_options && { passkey_options }) },
    });
  }

  /** @throws {ProblemException} invalid_second_factor; email_not_verified; too_many_requests; unavailable */
  async answer(request: SecondFactorRequest, actor: Actor): Promise<Grant> {
    const { challenge, user } = await this.open(request.challenge, actor);
    const amr = await this.verify(user, request, actor);
    return this.begin(user, challenge, amr, problems.invalidSecondFactor, actor);
  }

  /**
   * The options of a login with a passkey alone. They are the same for every client: nothing is known of the user.
   * @throws {ProblemException} not_found without WEBAUTHN_RP_ID
   */
  async createPasskeyOptions(): Promise<PasskeyRequestOptionsResponse> {
    const challenge = this.challenges.issue('passkey', await this.clock.now());
    return this.relyingParty.createAuthenticationOptions(challenge);
  }

  /** @throws {ProblemException} invalid_passkey; email_not_verified; not_found without WEBAUTHN_RP_ID */
  async logInWithPasskey(answer: object, actor: Actor): Promise<Grant> {
    const refusal = problems.invalidPasskey;
    const response = parseAuthentication(answer);
    if (!response) return this.refusals.refuse(refusal, 'wrong_passkey', actor);
    const text = readChallenge(response);
    const challenge = this.challenges.read('passkey', text);
    if (!challenge || !this.challenges.isValid(challenge, await this.clock.now()))
      return this.refusals.refuse(refusal, 'challenge', actor);
    const verdict = await this.passkeys.verify(response, text);
    if (!verdict.valid) return this.refusePasskey(refusal, verdict, actor);
    const user = await this.factors.read(verdict.userId);
    if (!user) return this.refusals.refuse(refusal, 'unknown_passkey', actor);
    return this.begin(user, challenge, [verdict.proof, 'user', 'mfa'], refusal, actor);
  }

  /** Without a valid challenge nothing is known of the client, and the refusal is counted by its network. */
  private async open(text: string, actor: Actor): Promise<{ challenge: PresentedChallenge; user: Factors }> {
    const challenge = this.challenges.read('login', text);
    if (!challenge) return this.refusals.refuse(problems.invalidSecondFactor, 'challenge', actor);
    // The same work for an id that is unknown: a forged challenge tells nothing about accounts.
    const [user, now] = await Promise.all([this.factors.read(challenge.userId), this.clock.now()]);
    const isValid = this.challenges.isValid(challenge, now, toPasswordContext(user ?? { passwordChangedAt: now }));
    if (!user || !isValid) return this.refusals.refuse(problems.invalidSecondFactor, 'challenge', actor);
    if (!user.isActive) return this.refusals.refuse(problems.invalidSecondFactor, 'disabled', actor, user.id);
    return { challenge, user };
  }

  private async verify(user: Factors, request: SecondFactorRequest, actor: Actor): Promise<Amr> {
    const { method, code = '', passkey = {} } = request;
    if (method === 'totp') await this.codes.acceptTotp(user, code, actor);
    if (method === 'recovery_code') await this.codes.acceptRecoveryCode(user, code, actor);
    if (method !== 'passkey') return ['pwd', 'otp', 'mfa'];
    const response = parseAuthentication(passkey);
    const isAnswer = response && this.isMethod(user) && readChallenge(response) === request.challenge;
    const verdict = isAnswer
      ? await this.passkeys.verify(response, request.challenge, user.id)
      : ({ valid: false, reason: 'wrong_passkey' } as const);
    if (!verdict.valid) return this.refusePasskey(problems.invalidSecondFactor, { ...verdict, userId: user.id }, actor);
    return ['pwd', verdict.proof, 'user', 'mfa'];
  }

  private isMethod(user: Factors): boolean {
    return this.factors.listMethods(user).includes('passkey');
  }

  private refusePasskey(
    problem: Problem,
    { reason, userId }: Extract<PasskeyVerdict, { valid: false }>,
    actor: Actor,
  ): Promise<never> {
    return this.refusals.refuse(problem, reason, actor, userId);
  }

  /** Uses the challenge up: of concurrent answers to one, one begins a session. */
  private async begin(
    user: Factors,
    challenge: PresentedChallenge,
    amr: Amr,
    problem: Problem,
    actor: Actor,
  ): Promise<Grant> {
    if (this.environment.requireVerifiedEmail && user.emailVerifiedAt === null)
      return this.refusals.refuse(problems.emailNotVerified, 'email_not_verified', actor, user.id);
    if (!(await this.challenges.use(challenge))) return this.refusals.refuse(problem, 'challenge', actor, user.id);
    const grant = await this.sessions.start(user, toUserActor(actor, user.id), amr);
    return grant ?? this.refusals.refuse(problem, 'disabled', actor, user.id);
  }
}
