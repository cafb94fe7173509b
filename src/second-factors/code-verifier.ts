import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import { toUserActor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { DatabaseClock } from '../database/database-clock.js';
import { Database } from '../database/database.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { SecondFactorThrottle } from '../throttling/second-factor-throttle.js';
import { FactorRefusals, type FactorReason } from './factor-refusals.js';
import { ACCEPT_TIME_STEP, USE_RECOVERY_CODE } from './factor-statements.js';
import { toRecoveryDigest } from './recovery-codes.js';
import type { Factors } from './second-factors.service.js';
import { TotpVault } from './totp-vault.js';
import { findTimeStep } from './totp.js';

type Verdict = 'accepted' | FactorReason;

/** Verifies codes of authenticator apps and recovery codes. Each works once. Wrong ones are throttled by account. */
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

  /** @throws {ProblemException} invalid_second_factor; too_many_requests; unavailable */
  async acceptTotp(user: Factors, code: string, actor: Actor): Promise<void> {
    await this.counted(user.id, 'totp', actor, async () => {
      if (!user.confirmedAt) return 'no_factor';
      const step = await this.findStep(user, code);
      if (step === undefined) return 'wrong_code';
      const accepted = await this.database.rows(ACCEPT_TIME_STEP, [user.id, step]);
      return accepted.length > 0 ? 'accepted' : 'repeated_code';
    });
  }

  /** @throws {ProblemException} invalid_second_factor; too_many_requests; unavailable */
  async acceptRecoveryCode(user: Factors, code: string, actor: Actor): Promise<void> {
    await this.counted(user.id, 'recovery_code', actor, async () => {
      const digest = toRecoveryDigest(code);
      if (!user.confirmedAt) return 'no_factor';
      if (!digest) return 'wrong_code';
      const used = await this.audit.execute(USE_RECOVERY_CODE, [user.id, digest], {
        event: 'user.recovery_code.used',
        actor: toUserActor(actor, user.id),
        time: this.clock.now(),
        subject: user.id,
        logFields: { user_id: user.id },
      });
      return used.length > 0 ? 'accepted' : 'wrong_code';
    });
  }

  /** Where both are accepted: a user who has lost the app has the recovery codes. */
  async acceptAny(user: Factors, code: string, actor: Actor): Promise<void> {
    await (toRecoveryDigest(code) ? this.acceptRecoveryCode(user, code, actor) : this.acceptTotp(user, code, actor));
  }

  /**
   * Verifies the code of an enrolment, without accepting it.
   * @returns its time step
   * @throws {ProblemException} invalid_second_factor; too_many_requests; unavailable
   */
  async verifyEnrolment(user: Factors, code: string, actor: Actor): Promise<number> {
    let step: number | undefined;
    await this.counted(user.id, 'totp', actor, async () => {
      if (!user.encryptedSecret) return 'no_factor';
      step = await this.findStep(user, code);
      return step === undefined ? 'wrong_code' : 'accepted';
    });
    if (step === undefined) throw new Error('An accepted code has a time step');
    return step;
  }

  private async findStep({ id, encryptedSecret }: Factors, code: string): Promise<number | undefined> {
    const secret = encryptedSecret && this.vault.decrypt(id, encryptedSecret);
    if (!secret) {
      const cause = new Error('Neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts a TOTP secret');
      throw new ProblemException(problems.unavailable, { cause });
    }
    return findTimeStep(secret, code, await this.databaseClock.now());
  }

  private async counted(
    userId: string,
    kind: 'totp' | 'recovery_code',
    actor: Actor,
    verify: () => Promise<Verdict>,
  ): Promise<void> {
    const attempt = await this.throttle.begin(userId, kind);
    let verdict: Verdict;
    try {
      verdict = await verify();
    } catch (error) {
      // If it fails, the reservation expires after a minute.
      await attempt.settle(false).catch(() => undefined);
      throw error;
    }
    // The code is used up: a counter that cannot be reached must not void it. Its reservation expires after a minute.
    if (verdict === 'accepted') return attempt.settle(false).catch(() => undefined);
    await attempt.settle(true);
    await this.refusals.refuse(problems.invalidSecondFactor, verdict, actor, userId);
  }
}
