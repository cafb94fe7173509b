import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import { toUserActor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { DatabaseClock } from '../database/database-clock.js';
import { Database } from '../database/database.js';
import type { Problem } from '../problems/problem.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { SecondFactorThrottle, type CodeAttempt } from '../throttling/second-factor-throttle.js';
import { FactorRefusals, type FactorReason } from './factor-refusals.js';
import { ACCEPT_TIME_STEP, USE_RECOVERY_CODE } from './factor-statements.js';
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

interface Refused {
  readonly valid: false;
  readonly reason: FactorReason;
}

const ACCEPTED = { valid: true } as const;

/**
 * Verifies codes of authenticator apps and recovery codes. Each works once. Wrong ones are throttled by account. Without a
 * factor there is nothing to guess, and a refusal spends no point of the throttle.
 */
@Injectable()
export class CodeVerifier {
  constructor(
    private readonly database: Database,
    private readonly databaseClock: DatabaseClock,
    private readonly vault: TotpVault,
    private readonly throttle: SecondFactorThrottle,
    private readonly refusals: FactorRefusals,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} the refusal; too_many_requests; hashing_busy; unavailable */
  async acceptTotp(presented: PresentedCode): Promise<void> {
    const { user, code } = presented;
    if (!user.confirmedAt) return this.refuse(presented, 'no_factor');
    await this.attempt('totp', presented, async () => {
      const step = await this.findStep(user, code);
      if (step === undefined) return toRefused('wrong_code');
      const accepted = await this.database.rows(ACCEPT_TIME_STEP, [user.id, step]);
      return accepted.length > 0 ? ACCEPTED : toRefused('repeated_code');
    });
  }

  /** @throws {ProblemException} the refusal; too_many_requests; hashing_busy; unavailable */
  async acceptRecoveryCode(presented: PresentedCode): Promise<void> {
    const { user, code, actor } = presented;
    if (!user.confirmedAt) return this.refuse(presented, 'no_factor');
    await this.attempt('recovery_code', presented, async () => {
      const digest = toRecoveryDigest(code);
      if (!digest) return toRefused('wrong_code');
      const used = await this.audit.execute(USE_RECOVERY_CODE, [user.id, digest], {
        event: 'user.recovery_code.used',
        actor: toUserActor(actor, user.id),
        time: this.clock.now(),
        subject: user.id,
        logFields: { user_id: user.id },
      });
      return used.length > 0 ? ACCEPTED : toRefused('wrong_code');
    });
  }

  /**
   * Of a user who is logged in, and may have lost the app: takes recovery codes too.
   * @throws {ProblemException} wrong_second_factor; too_many_requests; hashing_busy; unavailable
   */
  async acceptAny(own: OwnCode): Promise<void> {
    const presented = { ...own, refusal: problems.wrongSecondFactor };
    await (toRecoveryDigest(own.code) ? this.acceptRecoveryCode(presented) : this.acceptTotp(presented));
  }

  /**
   * Verifies the code of an enrolment, without accepting it.
   * @returns its time step
   * @throws {ProblemException} wrong_second_factor; too_many_requests; hashing_busy; unavailable
   */
  async verifyEnrolment(own: OwnCode): Promise<number> {
    const { user, code } = own;
    const presented = { ...own, refusal: problems.wrongSecondFactor };
    if (!user.encryptedSecret || isVoid(user)) return this.refuse(presented, 'no_factor');
    const { step } = await this.attempt('totp', presented, async () => {
      const found = await this.findStep(user, code);
      return found === undefined ? toRefused('wrong_code') : { valid: true, step: found };
    });
    return step;
  }

  private async findStep({ id, encryptedSecret }: UserWithFactors, code: string): Promise<number | undefined> {
    const secret = encryptedSecret && this.vault.decrypt(id, encryptedSecret);
    if (!secret) {
      const cause = new Error('Neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts a TOTP secret');
      throw new ProblemException(problems.unavailable, { cause });
    }
    return findTimeStep(secret, code, await this.databaseClock.now());
  }

  private async attempt<Accepted extends { readonly valid: true }>(
    method: CodeAttempt['method'],
    presented: PresentedCode,
    verify: () => Promise<Accepted | Refused>,
  ): Promise<Accepted> {
    const { user, actor } = presented;
    const verdict = await this.throttle.attempt({ userId: user.id, method, address: actor.address }, verify);
    return verdict.valid ? verdict : this.refuse(presented, verdict.reason);
  }

  private async refuse({ user, actor, refusal }: PresentedCode, reason: FactorReason): Promise<never> {
    return this.refusals.refuse(refusal, reason, actor, user.id);
  }
}

function toRefused(reason: FactorReason): Refused {
  return { valid: false, reason };
}

/** An enrolment began with the password: another password voids it, as it voids the options of a passkey. */
function isVoid({ enrolledAt, passwordChangedAt }: UserWithFactors): boolean {
  return enrolledAt !== null && passwordChangedAt !== null && enrolledAt <= passwordChangedAt;
}
