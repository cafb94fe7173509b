import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { Outbox } from '../mail/outbox.js';
import { Throttle } from '../throttling/throttle.js';
import { OwnAccount } from '../users/own-account.js';
import { PasswordVerifier } from '../passwords/password-verifier.js';

/** Takes requests for links. An anonymous one is the same work for every address: no account is looked up. */
@Injectable()
export class LinkRequests {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: Outbox,
    private readonly throttle: Throttle,
    private readonly passwords: PasswordVerifier,
    private readonly account: OwnAccount,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * @param email canonical
   * @throws {ProblemException} too_many_requests, alike for addresses without an account
   */
  async add(kind: 'password_reset' | 'email_verification', email: string, actor: Actor): Promise<void> {
    await this.throttle.countMails([email], actor.address);
    await this.outbox.add(kind, email, actor.requestId);
    this.audit.logOnly('user.mail.requested', actor, { reason: kind });
  }

  /**
   * Asks the new address for a confirmation, and tells the old one. Whether the new one is taken, only the worker looks.
   * @param owner the principal of the user door
   * @param newEmail canonical
   * @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token
   */
  async addChange(
    owner: { userId: string; email: string },
    password: string,
    newEmail: string,
    actor: Actor,
  ): Promise<void> {
    const verified = await this.passwords.reauthenticateUser(owner, password, actor);
    const { id: userId, email } = verified;
    await this.throttle.countMails([email, newEmail], actor.address);
    const { requestId } = actor;
    await this.dataSource.transaction(async (transaction) => {
      // A password that was changed meanwhile has stopped the changes that were asked for with the old one.
      await this.account.requireUnchanged(transaction, verified);
      await this.outbox.addWith(transaction, { kind: 'email_change', recipient: newEmail, userId, requestId });
      await this.outbox.addWith(transaction, { kind: 'email_change_notice', recipient: email, userId, requestId });
      await this.audit.record(transaction, {
        event: 'user.email.change_requested',
        actor,
        time: this.clock.now(),
        subject: userId,
        logFields: { user_id: userId },
      });
    });
  }
}
