import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import type { UserPrincipal } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-event.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { CodeVerifier } from './code-verifier.js';
import { FactorChanges, toFactorOwner, type FactorOwner } from './factor-changes.js';
import * as sql from './factor-statements.js';
import { generateRecoveryCodes, toRecoveryDigest } from './recovery-codes.js';
import { SecondFactors, type Factors } from './second-factors.service.js';
import { TotpVault } from './totp-vault.js';
import { generateTotpSecret, toBase32, toOtpauthUrl } from './totp.js';

/** Shown once. */
export interface Enrolment {
  readonly secret: string;
  readonly otpauthUrl: string;
}

/** The authenticator app of a user, and the recovery codes beside it. */
@Injectable()
export class TotpService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly factors: SecondFactors,
    private readonly codes: CodeVerifier,
    private readonly vault: TotpVault,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} not_found without an enrolment */
  async find(userId: string): Promise<Factors> {
    const user = await this.read(userId);
    if (!user.encryptedSecret) throw new ProblemException(problems.notFound);
    return user;
  }

  /**
   * Begins an enrolment, in the place of one that was not confirmed. Logins ask for codes once it is confirmed.
   * @throws {ProblemException} totp_enrolled
   */
  async enrol(owner: FactorOwner, email: string): Promise<Enrolment> {
    const secret = generateTotpSecret();
    const { userId } = owner;
    const values = [userId, this.vault.encrypt(userId, secret), this.vault.keyMark, this.clock.now()];
    const enrolled = await this.changes.run(owner, (transaction) =>
      transaction.query<unknown[]>(sql.ENROL_TOTP, values),
    );
    if (enrolled.length === 0) throw new ProblemException(problems.totpEnrolled);
    const issuer = this.environment.webauthnRpId ?? this.environment.serviceName;
    return { secret: toBase32(secret), otpauthUrl: toOtpauthUrl(secret, issuer, email) };
  }

  /**
   * Ends the other sessions, if it is the first factor.
   * @returns recovery codes
   * @throws {ProblemException} totp_enrolled; invalid_second_factor; too_many_requests; unavailable
   */
  async confirm(principal: UserPrincipal, code: string, actor: Actor): Promise<string[]> {
    const { userId } = principal;
    const user = await this.read(userId);
    if (user.confirmedAt) throw new ProblemException(problems.totpEnrolled);
    const step = await this.codes.verifyEnrolment(user, code, actor);
    return this.changes.run(toFactorOwner(principal, user), async (transaction) => {
      const values = [userId, this.clock.now(), step, user.encryptedSecret];
      const [confirmed] = await transaction.query<[unknown[], number]>(sql.CONFIRM_TOTP, values);
      // A parallel call has confirmed it.
      if (confirmed.length === 0) throw new ProblemException(problems.totpEnrolled);
      return this.replaceCodes(transaction, this.toEvent('user.totp.enrolled', userId, actor));
    });
  }

  /**
   * Removes the app and the recovery codes.
   * @throws {ProblemException} invalid_second_factor; too_many_requests; unavailable
   */
  async remove(owner: FactorOwner, code: string, actor: Actor): Promise<void> {
    const { userId } = owner;
    await this.codes.acceptAny(await this.read(userId), code, actor);
    await this.changes.run(owner, async (transaction) => {
      const [, count] = await transaction.query<[unknown, number]>(sql.REMOVE_TOTP, [userId]);
      // Otherwise a parallel call has removed it.
      if (count > 0) await this.audit.record(transaction, this.toEvent('user.totp.removed', userId, actor));
    });
  }

  /**
   * @returns new recovery codes; the former ones are void
   * @throws {ProblemException} invalid_second_factor; too_many_requests; unavailable
   */
  async replaceRecoveryCodes(owner: FactorOwner, code: string, actor: Actor): Promise<string[]> {
    const { userId } = owner;
    await this.codes.acceptAny(await this.read(userId), code, actor);
    return this.changes.run(owner, async (transaction) => {
      const found = await transaction.query<unknown[]>(sql.HAS_TOTP, [userId]);
      // A parallel call has removed it.
      if (found.length === 0) throw new ProblemException(problems.notFound);
      return this.replaceCodes(transaction, this.toEvent('user.recovery_codes.replaced', userId, actor));
    });
  }

  private async replaceCodes(transaction: EntityManager, event: AuditEvent): Promise<string[]> {
    const codes = generateRecoveryCodes();
    await transaction.query(sql.DELETE_RECOVERY_CODES, [event.subject]);
    await transaction.query(sql.INSERT_RECOVERY_CODES, [event.subject, codes.map(toRecoveryDigest)]);
    await this.audit.record(transaction, event);
    return codes;
  }

  private async read(userId: string): Promise<Factors> {
    const user = await this.factors.read(userId);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  private toEvent(event: AuditEvent['event'], userId: string, actor: Actor): AuditEvent {
    return { event, actor, time: this.clock.now(), subject: userId, logFields: { user_id: userId } };
  }
}
