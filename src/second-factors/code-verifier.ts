import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { type Actor, toUserActor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import type { SecretDigest } from '../crypto/secret.js';
import { DatabaseClock } from '../database/database.js';
import { type Problem, ProblemException, problems } from '../problems/problems.js';
import { SecondFactorThrottle, type CodeGuess } from '../throttling/guess-throttles.js';
import { FactorRefusals, type FactorReason, type UseProof } from './factor-refusals.js';
import { USE_RECOVERY_CODE, USE_TIME_STEP } from './factor-statements.js';
import { toRecoveryDigest } from './recovery-codes.js';
import type { UserWithFactors } from './second-factors.service.js';
import { TotpVault } from './totp-vault.js';
import { findTimeStep } from './totp.js';

/** A code that a client has sent, and the answer to a wrong one: 401 at a login, 403 to a user who is logged in. */
export interface PresentedCode {
  readonly user: UserWithFactors;
  readonly code: string;
  readonly actor: Actor;
  readonly refusal: Problem;
}

type OwnCode = Omit<PresentedCode, 'refusal'>;

/** The act that a code authorises. It calls `useCode` in its transaction. */
type Act<Result> = (useCode: UseProof) => Promise<Result>;

/** The code is wrong, which costs a point of the throttle. */
class WrongCodeError extends Error {
  override readonly name = 'WrongCodeError';

  constructor(readonly reason: FactorReason) {
    super(reason);
  }
}

/**
 * Verifies codes of authenticator apps and recovery codes. Each works once. Wrong ones are throttled by account. Without a
 * factor there is nothing to guess, and a refusal spends no point of the throttle.
 */
@Injectable()
export class CodeVerifier {
  constructor(
    private readonly databaseClock: DatabaseClock,
    private readonly vault: TotpVault,
    private readonly throttle: SecondFactorThrottle,
    private readonly refusals: FactorRefusals,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} the refusal; those of the act; too_many_requests; hashing_busy; unavailable; totp_secret_unreadable */
  async acceptTotp<Result>(presented: PresentedCode, act: Act<Result>): Promise<Result> {
    const { user, code } = presented;
    if (!user.confirmedAt) return this.refuse(presented, 'no_factor');
    return this.attempt('totp', presented, async () => {
      const step = await this.findStep(user, code);
      return act((transaction) => this.useTimeStep(transaction, user.id, step));
    });
  }

  /** @throws {ProblemException} the refusal; those of the act; too_many_requests; hashing_busy; unavailable */
  async acceptRecoveryCode<Result>(presented: PresentedCode, act: Act<Result>): Promise<Result> {
    const { user, code, actor } = presented;
    if (!user.confirmedAt) return this.refuse(presented, 'no_factor');
    return this.attempt('recovery_code', presented, async () => {
      const digest = toRecoveryDigest(code);
      if (!digest) throw new WrongCodeError('wrong_code');
      return act((transaction) => this.useRecoveryCode(transaction, user.id, digest, actor));
    });
  }

  /**
   * For a user who is logged in: a code of the app, or a recovery code, because the app may be lost.
   * @throws {ProblemException} wrong_second_factor; those of the act; too_many_requests; hashing_busy; unavailable;
   * totp_secret_unreadable
   */
  async acceptAny<Result>(own: OwnCode, act: Act<Result>): Promise<Result> {
    const presented = { ...own, refusal: problems.wrongSecondFactor };
    return toRecoveryDigest(own.code) ? this.acceptRecoveryCode(presented, act) : this.acceptTotp(presented, act);
  }

  /**
   * Verifies the code of an enrolment, without accepting it.
   * @returns its time step
   * @throws {ProblemException} wrong_second_factor; too_many_requests; hashing_busy; unavailable; totp_secret_unreadable
   */
  async verifyEnrolment(own: OwnCode): Promise<number> {
    const { user, code } = own;
    const presented = { ...own, refusal: problems.wrongSecondFactor };
    if (!user.encryptedSecret || isVoid(user)) return this.refuse(presented, 'no_factor');
    return this.attempt('totp', presented, () => this.findStep(user, code));
  }

  private async findStep({ id, encryptedSecret }: UserWithFactors, code: string): Promise<number> {
    const secret = encryptedSecret && this.vault.decrypt(id, encryptedSecret);
    if (!secret) {
      const fault = { user_id: id, reason: 'neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts the TOTP secret' };
      throw new ProblemException(problems.totpSecretUnreadable, { fault });
    }
    const step = findTimeStep(secret, code, await this.databaseClock.now());
    if (step === undefined) throw new WrongCodeError('wrong_code');
    return step;
  }

  private async useTimeStep(transaction: EntityManager, userId: string, step: number): Promise<void> {
    const [, count] = await transaction.query<[unknown, number]>(USE_TIME_STEP, [userId, step]);
    if (count === 0) throw new WrongCodeError('repeated_code');
  }

  private async useRecoveryCode(
    transaction: EntityManager,
    userId: string,
    digest: SecretDigest,
    actor: Actor,
  ): Promise<void> {
    const used = await this.audit.executeIn(transaction, USE_RECOVERY_CODE, [userId, digest], {
      event: 'user.recovery_code.used',
      actor: toUserActor(actor, userId),
      time: this.clock.now(),
      subject: userId,
      logFields: { user_id: userId },
    });
    if (used.length === 0) throw new WrongCodeError('wrong_code');
  }

  private async attempt<Result>(
    method: CodeGuess['method'],
    presented: PresentedCode,
    verify: () => Promise<Result>,
  ): Promise<Result> {
    const { user, actor } = presented;
    const verdict = await this.throttle.countCodeGuess(
      { userId: user.id, method, address: actor.address },
      async () => {
        try {
          return { valid: true, result: await verify() } as const;
        } catch (error) {
          if (error instanceof WrongCodeError) return { valid: false, reason: error.reason } as const;
          throw error;
        }
      },
    );
    return verdict.valid ? verdict.result : this.refuse(presented, verdict.reason);
  }

  private async refuse({ user, actor, refusal }: PresentedCode, reason: FactorReason): Promise<never> {
    return this.refusals.refuse(refusal, reason, actor, user.id);
  }
}

/** An enrolment began with the password: another password voids it, as it voids the options of a passkey. */
function isVoid({ enrolledAt, passwordChangedAt }: UserWithFactors): boolean {
  return enrolledAt !== null && passwordChangedAt !== null && enrolledAt <= passwordChangedAt;
}
