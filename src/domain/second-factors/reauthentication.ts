/**
 * Reauthentication before a sensitive action of a user (ASVS 7.5.1): beside the access token, the action needs the password
 * and, for an account with a second factor, a fresh code or an assertion of a passkey. So a thief of the session and of
 * the password still cannot act on an account with a second factor.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { OwnCall } from '../../foundation/access/actor.js';
import { ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { PASSWORD_PROBLEMS, PasswordVerifier, type VerifiedUser } from '../passwords/password-verifier.js';
import { lockAccount } from '../users/account-statements.js';
import { Challenges } from '../challenges/challenges.js';
import { parseAuthentication, readChallenge, RelyingParty } from '../webauthn/relying-party.js';
import { toPasswordContext } from './challenge-contexts.js';
import { CodeVerifier } from './codes.js';
import { PasskeyVerifier } from './passkey-verifier.js';
import {
  RefusedProofError,
  SecondFactorsService,
  type UseProof,
  type UserWithFactors,
} from './second-factors.service.js';

/** The proof that the request carries. For an account without a second factor, `code` and `passkey` are ignored. */
export interface OwnProof {
  readonly password: string;
  /** Of the authenticator app, or a recovery code. */
  readonly code?: string | undefined;
  /** The answer to the `passkey_options` of a fresh_second_factor_required. */
  readonly passkey?: object | undefined;
}

/** The action. It must call `useProof` in its transaction, before it changes anything. */
type Action<Result> = (verified: VerifiedUser, useProof: UseProof) => Promise<Result>;

export const REAUTHENTICATION_PROBLEMS = [
  ...PASSWORD_PROBLEMS,
  problems.freshSecondFactorRequired,
  problems.wrongSecondFactor,
  problems.totpSecretUnreadable,
];

const HAS_SAME_FACTORS = 'SELECT FROM users WHERE id = $1 AND factors_changed_at IS NOT DISTINCT FROM $2::timestamptz';

@Injectable()
export class Reauthentication {
  constructor(
    private readonly passwords: PasswordVerifier,
    private readonly factors: SecondFactorsService,
    private readonly codes: CodeVerifier,
    private readonly challenges: Challenges,
    private readonly relyingParty: RelyingParty,
    private readonly passkeys: PasskeyVerifier,
  ) {}

  /**
   * Runs an action of a logged-in user. A refused action costs no code, because its transaction rolls back.
   * @throws {ProblemException} wrong_password; fresh_second_factor_required; wrong_second_factor; too_many_requests
   */
  async authorizeAction<Result>(call: OwnCall, proof: OwnProof, action: Action<Result>): Promise<Result> {
    const { password, code, passkey } = proof;
    if (code !== undefined && passkey !== undefined) refuseField('/passkey', 'must not be sent together with a code');
    const verified = await this.passwords.reauthenticateUser(call, password);
    const run = (useFactor: UseProof): Promise<Result> =>
      action(verified, async (transaction) => {
        await lockAccount(transaction, verified);
        await useFactor(transaction);
      });
    return this.factors.answerRefusals(problems.wrongSecondFactor, call.actor, async () => {
      if (!verified.hasSecondFactor) return run((transaction) => refuseAddedFactor(transaction, verified));
      const user = await this.factors.findUser(verified.id);
      if (passkey) return run(await this.verifyPasskey(user, passkey));
      if (code === undefined) throw await this.createRequirement(verified, user);
      return this.codes.acceptAnyCode({ user, code, actor: call.actor }, run);
    });
  }

  private async createRequirement(verified: VerifiedUser, user: UserWithFactors): Promise<ProblemException> {
    const methods = this.factors.listMethods(user);
    if (!methods.includes('passkey'))
      return new ProblemException(problems.freshSecondFactorRequired, { members: { methods } });
    const context = toPasswordContext(verified);
    const challenge = await this.challenges.issueChallenge('reauthentication', user.id, context);
    const passkey_options = this.relyingParty.createAuthenticationOptions(challenge, 'preferred', user.passkeys);
    return new ProblemException(problems.freshSecondFactorRequired, { members: { methods, passkey_options } });
  }

  private async verifyPasskey(user: UserWithFactors, passkey: object): Promise<UseProof> {
    const response = parseAuthentication(passkey);
    const text = readChallenge(response);
    const challenge = await this.challenges.findChallenge('reauthentication', text, user.id, toPasswordContext(user));
    if (!challenge) throw new RefusedProofError('challenge', user.id);
    const { useFactor } = await this.passkeys.verifyPasskey(response, text, user.id);
    return async (transaction) => {
      const isFirstUse = await this.challenges.consumeChallenge(transaction, challenge);
      if (!isFirstUse) throw new RefusedProofError('challenge', user.id);
      await useFactor(transaction);
    };
  }
}

/** Another session may have added a factor since the password was verified, and the action would pass without that factor. */
async function refuseAddedFactor(transaction: EntityManager, { id, factorsChangedAt }: VerifiedUser): Promise<void> {
  const same = await transaction.query<unknown[]>(HAS_SAME_FACTORS, [id, factorsChangedAt]);
  if (same.length === 0) throw new RefusedProofError('changed_meanwhile', id);
}
