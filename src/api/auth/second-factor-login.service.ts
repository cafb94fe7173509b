/**
 * Steps 2 to 4 of a login (login.service.ts) with a second factor, or with a passkey alone: the challenge, the answer, and
 * the session. Invariant: the transaction that starts the session also consumes the challenge and the factor.
 */
import { Injectable } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import type { SecondFactorMethod } from '../../foundation/common/names.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { toEnrolmentContext, toPasswordContext } from '../../domain/second-factors/challenge-contexts.js';
import { Challenges, type PresentedChallenge } from '../../domain/challenges/challenges.js';
import { CodeVerifier } from '../../domain/second-factors/codes.js';
import { PasskeyVerifier } from '../../domain/second-factors/passkey-verifier.js';
import {
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
} from '../../domain/webauthn/relying-party.js';
import type { Amr, TokenPair } from '../../domain/tokens/access-tokens.js';
import { NewSessions } from '../../domain/tokens/new-sessions.js';
import type { AccountState, VerifiedUser } from '../../domain/passwords/password-verifier.js';

/** The client's answer to a login challenge, with the code or the passkey that the method needs. */
interface SecondFactorAnswer {
  readonly challenge: string;
  readonly method: SecondFactorMethod;
  readonly code?: string;
  readonly passkey?: object;
}

/** A login whose proofs are verified, but not consumed yet. */
interface VerifiedLogin {
  /** The account as it was when the proofs were verified. */
  readonly owner: AccountState;
  readonly challenge: PresentedChallenge;
  readonly useFactor: UseProof;
  readonly amr: Amr;
}

interface OpenedChallenge {
  readonly challenge: PresentedChallenge;
  readonly user: UserWithFactors;
}

const CONTEXTS = { login: toPasswordContext, enrolment: toEnrolmentContext } as const;

@Injectable()
export class SecondFactorLogins {
  constructor(
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly codes: CodeVerifier,
    private readonly relyingParty: RelyingParty,
    private readonly passkeys: PasskeyVerifier,
    private readonly newSessions: NewSessions,
  ) {}

  /** @returns second_factor_required, with a challenge that a change of the password voids */
  async createChallenge(verified: VerifiedUser, user?: UserWithFactors): Promise<ProblemException> {
    const { id } = verified;
    const current = user ?? (await this.factors.readUser(id));
    const methods = current ? this.factors.listMethods(current) : [];
    const challenge = await this.challenges.issueChallenge('login', id, toPasswordContext(verified));
    const passkey_options =
      current && methods.includes('passkey')
        ? this.relyingParty.createAuthenticationOptions(challenge, 'preferred', current.passkeys)
        : undefined;
    return new ProblemException(problems.secondFactorRequired, {
      refusal: { event: 'user.login.challenged', reason: 'second_factor', fields: { user_id: id } },
      members: { methods, challenge, ...(passkey_options && { passkey_options }) },
    });
  }

  /** @returns a challenge when the user, with the same password, has added a factor since it was verified */
  async createChallengeIfAdded(verified: VerifiedUser): Promise<ProblemException | undefined> {
    const user = await this.factors.readUser(verified.id);
    if (!user?.isActive || toPasswordContext(user) !== toPasswordContext(verified)) return undefined;
    return user.confirmedAt || user.passkeys.length > 0 ? this.createChallenge(verified, user) : undefined;
  }

  async logInWithSecondFactor(answer: SecondFactorAnswer, actor: Actor): Promise<TokenPair> {
    return this.factors.answerRefusals(problems.invalidSecondFactor, actor, async () => {
      const { challenge, user } = await this.openChallenge('login', answer.challenge);
      if (answer.method === 'passkey') {
        const { amr, useFactor } = await this.verifyPasskeyOf(user, answer);
        return this.startSession({ owner: user, challenge, useFactor, amr: ['pwd', amr, 'user', 'mfa'] }, actor);
      }
      return this.codes.acceptCode(answer.method, { user, code: answer.code ?? '', actor }, (useFactor) =>
        this.startSession({ owner: user, challenge, useFactor, amr: ['pwd', 'otp', 'mfa'] }, actor),
      );
    });
  }

  /** Every client gets the same options, because a client names no user before it answers with a passkey. */
  async createPasskeyOptions(): Promise<PasskeyRequestOptionsResponse> {
    return this.relyingParty.createAuthenticationOptions(await this.challenges.issueChallenge('passkey'), 'required');
  }

  async logInWithPasskey(answer: object, actor: Actor): Promise<TokenPair> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    return this.factors.answerRefusals(problems.invalidPasskey, actor, async () => {
      const response = parseAuthentication(answer);
      const text = readChallenge(response);
      const challenge = await this.challenges.findChallenge('passkey', text);
      if (!challenge) throw new RefusedProofError('challenge');
      const { owner, amr, useFactor } = await this.passkeys.verifyPasskey(response, text);
      return this.startSession({ owner, challenge, useFactor, amr: [amr, 'user', 'mfa'] }, actor);
    });
  }

  /**
   * One transaction starts the session and consumes the proofs, so that of concurrent answers with the same challenge or
   * factor exactly one starts a session.
   */
  private async startSession({ owner, challenge, useFactor, amr }: VerifiedLogin, actor: Actor): Promise<TokenPair> {
    const useProofs: UseProof = async (transaction) => {
      const isFirstUse = await this.challenges.consumeChallenge(transaction, challenge);
      if (!isFirstUse) throw new RefusedProofError('challenge', owner.id);
      await useFactor(transaction);
      // Checked last, so that only a client with valid proofs learns it; the error rolls their consumption back.
      if (this.factors.isVerificationMissing(owner)) throw new RefusedProofError('email_not_verified', owner.id);
    };
    const tokens = await this.newSessions.startSession({ owner, actor, amr, useProofs });
    if (!tokens) throw new RefusedProofError('changed_meanwhile', owner.id);
    return tokens;
  }

  /** Refuses a forged challenge before it reads the account, so that the response time reveals nothing about the id in it. */
  async openChallenge(kind: keyof typeof CONTEXTS, text: string): Promise<OpenedChallenge> {
    const challenge = this.challenges.parseChallenge(kind, text);
    if (!challenge) throw new RefusedProofError('challenge');
    const [user, isCurrent] = await Promise.all([
      this.factors.readUser(challenge.userId),
      this.challenges.isCurrent(challenge),
    ]);
    if (!user || !isCurrent || !this.challenges.isBoundTo(challenge, CONTEXTS[kind](user)))
      throw new RefusedProofError('challenge');
    if (!user.isActive) throw new RefusedProofError('disabled', user.id);
    return { challenge, user };
  }

  private async verifyPasskeyOf(user: UserWithFactors, { challenge, passkey = {} }: SecondFactorAnswer) {
    const response = parseAuthentication(passkey);
    const isAnswer = this.factors.listMethods(user).includes('passkey') && readChallenge(response) === challenge;
    if (!isAnswer) throw new RefusedProofError('wrong_passkey', user.id);
    return this.passkeys.verifyPasskey(response, challenge, user.id);
  }
}
