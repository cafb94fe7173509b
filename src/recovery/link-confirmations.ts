/**
 * What the token of a link does: sets a new password, proves an address, or changes it. The token is looked up before the
 * expensive part, and used in the transaction of the act, which locks the row of the user first.
 * Invariant: the moment of the first proof of an address (`email_verified_at`) never changes. Before it any client could have
 * registered the address and left second factors behind that log in, so a reset by mail removes those that are older.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { toNetworks } from '../common/network.js';
import { PasswordHasher, type PasswordHash } from '../passwords/password-hasher.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { FactorChanges } from '../second-factors/factor-changes.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { EMAIL_PURPOSES, OneTimeTokens, RESET_PURPOSES, type FoundToken } from '../users/one-time-tokens.js';
import { OwnAccount } from '../users/own-account.js';
import { PasswordPolicy } from '../passwords/password-policy.js';
import { User } from '../users/users.service.js';

@Injectable()
export class PasswordResets {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: OneTimeTokens,
    private readonly policy: PasswordPolicy,
    private readonly hasher: PasswordHasher,
    private readonly account: OwnAccount,
    private readonly factors: FactorChanges,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * Ends all sessions of the user. When it has returned, no verifier accepts their tokens. A refused password does not use
   * the token.
   * @throws {ProblemException} validation_failed; invalid_link; hashing_busy
   */
  async resetPassword(
    { token, newPassword }: { readonly token: string; readonly newPassword: string },
    actor: Actor,
  ): Promise<void> {
    this.policy.checkNewPassword(newPassword, '/new_password');
    this.tokens.refuseUnreadable(token);
    await this.propagation.propagateAfter(async () => {
      // Before the hashing: an anonymous client without a valid token costs no bcrypt.
      const found = await this.tokens.findToken(token, RESET_PURPOSES);
      const turn = { networks: toNetworks(actor.address), isKnown: true };
      const passwordHash = await this.hasher.hashPassword(newPassword, turn);
      await this.dataSource.transaction((transaction) => this.commitReset(transaction, found, passwordHash, actor));
    });
  }

  private async commitReset(
    transaction: EntityManager,
    found: FoundToken,
    passwordHash: PasswordHash,
    actor: Actor,
  ): Promise<void> {
    const user = await this.tokens.useToken(transaction, found);
    const time = this.clock.now();
    const isByMail = found.email !== null;
    if (!(await this.account.setPassword(transaction, user, passwordHash)))
      throw new Error('The password of a locked row was set by another transaction');
    const provenAt = user.emailVerifiedAt ?? undefined;
    const removed = isByMail ? await this.factors.removeFactors(transaction, user.id, provenAt) : undefined;
    if (isByMail && !provenAt) await transaction.update(User, { id: user.id }, { emailVerifiedAt: time });
    const count = await this.sessions.endAllSessions(transaction, user.id, 'password_reset');
    await this.audit.record(transaction, {
      event: 'user.password.reset',
      actor: toUserActor(actor, user.id),
      time,
      subject: user.id,
      details: { token_from: isByMail ? 'mail' : 'operator', ended_sessions: count, removed_factors: removed },
      logFields: { user_id: user.id, count },
    });
  }
}

@Injectable()
export class EmailConfirmations {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: OneTimeTokens,
    private readonly factors: FactorChanges,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * Proves the address of the account, or changes it. When it has returned, no verifier answers with the old address.
   * @throws {ProblemException} invalid_link; email_taken when the new address was taken since the request
   */
  async confirmEmail(token: string, actor: Actor): Promise<void> {
    this.tokens.refuseUnreadable(token);
    await this.propagation.propagateAfter(async () => {
      const found = await this.tokens.findToken(token, EMAIL_PURPOSES);
      await this.dataSource
        .transaction((transaction) => this.commitEmail(transaction, found, actor))
        .catch((error: unknown) => {
          if (getViolatedConstraint(error) === 'users_email_key') throw new ProblemException(problems.emailTaken);
          throw error;
        });
    });
  }

  private async commitEmail(transaction: EntityManager, found: FoundToken, actor: Actor): Promise<void> {
    const { purpose, email } = found;
    if (email === null) throw new Error('A token about an address has no address');
    const user = await this.tokens.useToken(transaction, found);
    const { id: userId } = user;
    const time = this.clock.now();
    const isChange = purpose === 'email_change';
    const changes = isChange ? { email, updatedAt: time } : {};
    const emailVerifiedAt = await this.determineFirstProof(transaction, user, email);
    await transaction.update(User, { id: userId }, { ...changes, emailVerifiedAt });
    if (isChange) await this.tokens.voidTokens(transaction, userId);
    await this.audit.record(transaction, {
      event: isChange ? 'user.email.changed' : 'user.email.verified',
      actor: toUserActor(actor, userId),
      time,
      subject: userId,
      logFields: { user_id: userId },
    });
  }

  /**
   * The moment that later resets compare the factors with. The first proof of another address counts as older than every
   * factor: the password alone chooses that address, and must not be enough to remove the factors by a reset.
   */
  private async determineFirstProof(
    transaction: EntityManager,
    { id, email, emailVerifiedAt }: User,
    provenEmail: string,
  ): Promise<Date> {
    if (emailVerifiedAt) return emailVerifiedAt;
    return provenEmail === email
      ? this.factors.findMomentAfterNewestFactor(transaction, id)
      : this.factors.findMomentBeforeOldestFactor(transaction, id);
  }
}
