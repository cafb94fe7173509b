import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import type { UserPrincipal } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { ProblemException, problems } from '../problems/problems.js';
import { CodeVerifier } from './code-verifier.js';
import { FactorChanges } from './factor-changes.js';
import { ProvenOwner } from './proven-owner.js';
import { createVoidEnrolmentRefusal } from './factor-refusals.js';
import * as sql from './factor-statements.js';
import { generateRecoveryCodes, toRecoveryDigest } from './recovery-codes.js';
import { SecondFactorsService, type UserWithFactors } from './second-factors.service.js';
import { TotpVault } from './totp-vault.js';
import { generateTotpSecret, toBase32, toOtpauthUrl } from './totp.js';

/** Shown once. */
export interface Enrolment {
  readonly secret: string;
  readonly otpauthUrl: string;
}

export interface PasswordAndCode {
  readonly password: string;
  /** Of the app, or a recovery code. */
  readonly code: string;
}

/** The authenticator app of a user, and the recovery codes beside it. */
@Injectable()
export class TotpService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly factors: SecondFactorsService,
    private readonly codes: CodeVerifier,
    private readonly vault: TotpVault,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} not_found without an enrolment */
  async find(userId: string): Promise<UserWithFactors> {
    const user = await this.read(userId);
    if (!user.encryptedSecret) throw new ProblemException(problems.notFound);
    return user;
  }

  /**
   * Starts an enrolment, which replaces one that was not confirmed. Logins ask for codes once it is confirmed.
   * @throws {ProblemException} wrong_password; totp_enrolled; too_many_requests; hashing_busy; invalid_access_token
   */
  async enrol(principal: UserPrincipal, password: string, actor: Actor): Promise<Enrolment> {
    const owner = await this.changes.verifyPassword(principal, password, actor);
    const secret = generateTotpSecret();
    const { userId, email } = principal;
    const values = [userId, this.vault.encrypt(userId, secret), this.vault.keyMark, this.clock.now()];
    await this.changes.run(owner, async (transaction) => {
      const enrolled = await transaction.query<unknown[]>(sql.ENROL_TOTP, values);
      if (enrolled.length === 0) throw new ProblemException(problems.totpEnrolled);
      return { result: undefined, event: this.toEvent('user.totp.started', userId, actor), keepsFactors: true };
    });
    const issuer = this.environment.webauthnRpId ?? this.environment.serviceName;
    return { secret: toBase32(secret), otpauthUrl: toOtpauthUrl(secret, issuer, email) };
  }

  /**
   * Ends the other sessions, if it is the first factor.
   * @returns recovery codes
   * @throws {ProblemException} not_found; totp_enrolled; wrong_second_factor; too_many_requests; hashing_busy;
   * unavailable; invalid_access_token
   */
  async confirm(principal: UserPrincipal, code: string, actor: Actor): Promise<string[]> {
    const { userId } = principal;
    const user = await this.read(userId);
    if (user.confirmedAt) return this.changes.refuseRepetition(problems.totpEnrolled);
    const step = await this.codes.verifyEnrolment({ user, code, actor });
    const owner = ProvenOwner.byEarlierStep(principal, user, () => createVoidEnrolmentRefusal(userId));
    return this.changes.run(owner, async (transaction) => {
      const values = [userId, this.clock.now(), step, user.encryptedSecret];
      const [confirmed] = await transaction.query<[unknown[], number]>(sql.CONFIRM_TOTP, values);
      // A parallel call has confirmed it.
      if (confirmed.length === 0) throw new ProblemException(problems.totpEnrolled);
      const result = await this.replaceCodes(transaction, userId);
      return { result, event: this.toEvent('user.totp.enrolled', userId, actor) };
    });
  }

  /**
   * Removes the app and the recovery codes.
   * @throws {ProblemException} wrong_password; wrong_second_factor; not_found; too_many_requests; hashing_busy; unavailable;
   * invalid_access_token
   */
  async remove(principal: UserPrincipal, { password, code }: PasswordAndCode, actor: Actor): Promise<void> {
    const { userId } = principal;
    const owner = await this.changes.verifyPassword(principal, password, actor);
    const presented = { user: await this.read(userId), code, actor };
    await this.codes.acceptAny(presented, (useCode) =>
      this.changes.run(owner, async (transaction) => {
        await useCode(transaction);
        await transaction.query(sql.REMOVE_TOTP, [userId]);
        return { result: undefined, event: this.toEvent('user.totp.removed', userId, actor) };
      }),
    );
  }

  /**
   * @returns new recovery codes; the former ones are void
   * @throws {ProblemException} wrong_password; wrong_second_factor; not_found; too_many_requests; hashing_busy;
   * unavailable; invalid_access_token
   */
  async replaceRecoveryCodes(
    principal: UserPrincipal,
    { password, code }: PasswordAndCode,
    actor: Actor,
  ): Promise<string[]> {
    const { userId } = principal;
    const owner = await this.changes.verifyPassword(principal, password, actor);
    const presented = { user: await this.read(userId), code, actor };
    return this.codes.acceptAny(presented, (useCode) =>
      this.changes.run(owner, async (transaction) => {
        await useCode(transaction);
        const result = await this.replaceCodes(transaction, userId);
        return { result, event: this.toEvent('user.recovery_codes.replaced', userId, actor) };
      }),
    );
  }

  private async replaceCodes(transaction: EntityManager, userId: string): Promise<string[]> {
    const codes = generateRecoveryCodes();
    await transaction.query(sql.DELETE_RECOVERY_CODES, [userId]);
    await transaction.query(sql.INSERT_RECOVERY_CODES, [userId, codes.map(toRecoveryDigest)]);
    return codes;
  }

  private async read(userId: string): Promise<UserWithFactors> {
    const user = await this.factors.read(userId);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  private toEvent(event: AuditEvent['event'], userId: string, actor: Actor): AuditEvent {
    return { event, actor, time: this.clock.now(), subject: userId, logFields: { user_id: userId } };
  }
}
