/**
 * Second factors: authenticator apps (TOTP) with recovery codes, and passkeys, which also log in alone. A proof (a
 * code, an answer of a passkey) is verified first; `UseProof` consumes it, once, in the transaction of the action that it
 * authorises, and `answerRefusals` answers a refused one. Transactions lock the row of the user, then the challenge,
 * then the factor. Changes of factors need the password (factor-changes.ts). This file: a user's factors, and refusals
 * of proofs. Why a login would be refused: login-explanations.ts.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import type { SecondFactorMethod } from '../../foundation/common/names.js';
import { toNetwork } from '../../foundation/common/network.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment, isSecondFactorRequired } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { NO_PASSWORD } from '../passwords/password-hasher.js';
import { ACCOUNT_STATE, type AccountState } from '../passwords/password-verifier.js';
import { buildKnownPasskeys } from '../webauthn/passkey-rows.js';
import type { KnownPasskey } from '../webauthn/relying-party.js';
import { ProblemException, problems, type Problem } from '../../foundation/problems/problems.js';

const READ_USER: Statement = {
  name: 'second_factors_read',
  text: `SELECT ${ACCOUNT_STATE}, password_hash = '${NO_PASSWORD}' AS "hasNoPassword",
           encode(sha256(convert_to(password_hash, 'UTF8')), 'hex') AS "passwordHashDigest",
           encrypted_secret AS "encryptedSecret", totp_factors.created_at AS "enrolledAt",
           confirmed_at AS "confirmedAt",
           (SELECT count(*)::integer FROM recovery_codes WHERE user_id = users.id) AS "recoveryCodes",
           ${buildKnownPasskeys('passkeys', 'user_id = users.id')} AS passkeys
         FROM users LEFT JOIN totp_factors ON totp_factors.user_id = users.id WHERE users.id = $1`,
};

export interface UserWithFactors extends AccountState {
  readonly hasNoPassword: boolean;
  readonly passwordHashDigest: string;
  readonly encryptedSecret: Buffer | null;
  /** When the enrolment of the app began; null without an app. */
  readonly enrolledAt: Date | null;
  /** Null while the enrolment is not confirmed, when logins do not ask for codes yet. */
  readonly confirmedAt: Date | null;
  readonly recoveryCodes: number;
  readonly passkeys: readonly KnownPasskey[];
}

/**
 * Lists all factors of a user. {@link SecondFactorsService.listMethods} excludes those that a login does not accept.
 */
export function listFactors({ confirmedAt, recoveryCodes, passkeys }: UserWithFactors): SecondFactorMethod[] {
  return [
    ...(confirmedAt ? (['totp'] as const) : []),
    ...(confirmedAt && recoveryCodes > 0 ? (['recovery_code'] as const) : []),
    ...(passkeys.length > 0 ? (['passkey'] as const) : []),
  ];
}

const REFUSAL_EVENT = 'user.second_factor.failed';
type FactorReason = RefusalReason<typeof REFUSAL_EVENT>;

/**
 * Consumes a proof in the transaction of the action that it authorises.
 * @throws {RefusedProofError} when another call has consumed it
 */
export type UseProof = (transaction: EntityManager) => Promise<void>;

/** A refused proof, which rolls back its action; {@link SecondFactorsService.answerRefusals} answers it. */
export class RefusedProofError extends Error {
  override readonly name: string = 'RefusedProofError';

  /** @param userId undefined until a challenge is verified, because a client could name any user */
  constructor(
    readonly reason: FactorReason,
    readonly userId?: string,
  ) {
    super(reason);
  }
}

function toFactorRefusal(reason: FactorReason, userId?: string) {
  return { event: REFUSAL_EVENT, reason, fields: { user_id: userId } } as const;
}

@Injectable()
export class SecondFactorsService {
  constructor(
    private readonly database: Database,
    private readonly refusals: CountedRefusals,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * Runs an action that a proof authorises. A refused proof is counted in the audit log, and answered with this problem.
   */
  async answerRefusals<Result>(problem: Problem, actor: Actor, action: () => Promise<Result>): Promise<Result> {
    return action().catch(async (error: unknown) => {
      if (!(error instanceof RefusedProofError)) throw error;
      const { reason, userId } = error;
      const answer = reason === 'email_not_verified' ? problems.emailNotVerified : problem;
      const counted = { counted: userId ?? toNetwork(actor.address), subject: userId };
      throw await this.refusals.recordRefusal(
        { problem: answer, refusal: toFactorRefusal(reason, userId), ...counted },
        actor,
      );
    });
  }

  /** @throws {ProblemException} not_found */
  async findUser(userId: string): Promise<UserWithFactors> {
    const user = await this.readUser(userId);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  async readUser(userId: string): Promise<UserWithFactors | undefined> {
    return this.database.row<UserWithFactors>(READ_USER, [userId]);
  }

  /** Whether SECOND_FACTOR_REQUIRED demands a factor of every user now. @throws {WrongClockError} */
  isFactorRequired(): boolean {
    return isSecondFactorRequired(this.environment, this.clock.trustedNow());
  }

  /** With REQUIRE_VERIFIED_EMAIL, an account must prove its address before it logs in. */
  isVerificationMissing({ emailVerifiedAt }: AccountState): boolean {
    return this.environment.requireVerifiedEmail && emailVerifiedAt === null;
  }

  /** Without WEBAUTHN_RP_ID, a user whose only factors are passkeys has no method and cannot log in (fail closed). */
  listMethods(user: UserWithFactors): SecondFactorMethod[] {
    return listFactors(user).filter((method) => method !== 'passkey' || this.environment.webauthnRpId !== undefined);
  }
}
