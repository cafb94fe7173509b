/**
 * Uses the token of a link: sets a new password, proves an address, or changes it. The token is checked before the
 * expensive part, and used in the transaction of the change. Invariant: a reset keeps the second factors, because the
 * mailbox alone must not be the account (ASVS 6.4.3); a recovery code or an operator removes them.
 */
import { Injectable } from '@nestjs/common';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { Outbox } from '../../domain/mail/outbox.js';
import { NewPasswords } from '../../domain/passwords/new-passwords.js';
import { hasPassword } from '../../domain/passwords/password-hasher.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { OneTimeTokens, RESET_PURPOSES, EMAIL_PURPOSES } from '../../domain/users/one-time-tokens.js';
import { setPassword } from '../../domain/users/account-statements.js';
import { User } from '../../domain/users/user.entity.js';
import { translateTakenEmail } from '../../domain/users/users.service.js';
import { type Actor, toUserActor } from '../../foundation/access/actor.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';

@Injectable()
export class PasswordResets {
  constructor(
    private readonly tokens: OneTimeTokens,
    private readonly passwords: NewPasswords,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly outbox: Outbox,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * Ends all sessions of the user; when it has returned, no verifier accepts their tokens. A refused password leaves
   * the token usable.
   */
  async resetPassword(token: string, newPassword: string, actor: Actor): Promise<void> {
    const given = { password: newPassword, pointer: '/new_password' };
    this.passwords.checkNewPassword(given);
    this.tokens.refuseUnreadable(token);
    await this.propagation.propagateAfter(async () => {
      // Looked up before the hashing, so that an anonymous client without a valid token costs no bcrypt.
      const found = await this.tokens.findToken(token, RESET_PURPOSES);
      const isByMail = found.email !== null;
      const passwordHash = await this.passwords.hashNewPassword({ ...given, email: found.accountEmail }, actor);
      await this.tokens.useToken(found, async (transaction, user) => {
        const time = this.clock.now();
        // Always succeeds: `useToken` has locked the row, and refuses the token of a disabled account.
        await setPassword(transaction, user, passwordHash, time);
        if (isByMail && !user.emailVerifiedAt)
          await transaction.update(User, { id: user.id }, { emailVerifiedAt: time });
        const count = await this.sessions.endAllSessions(transaction, user.id, 'password_reset');
        const details = { token_from: isByMail ? 'mail' : 'operator', ended_sessions: count };
        const described = { time, details, logFields: { count } };
        const event = toUserEvent('user.password.reset', toUserActor(actor, user.id), user.id, described);
        await this.audit.record(transaction, event);
        // The first password of an account, such as an invited one, replaces none.
        const notice = { kind: 'password_reset_notice', recipient: user.email } as const;
        if (hasPassword(user.passwordHash)) await this.outbox.addNotice(transaction, event, notice);
      });
    });
  }
}

@Injectable()
export class EmailConfirmations {
  constructor(
    private readonly tokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /** Proves the address of the account, or changes it. When it has returned, no verifier answers with the old address. */
  async confirmEmail(token: string, actor: Actor): Promise<void> {
    this.tokens.refuseUnreadable(token);
    await this.propagation.propagateAfter(async () => {
      const found = await this.tokens.findToken(token, EMAIL_PURPOSES);
      const { purpose, email } = found;
      if (email === null) throw new Error('A token about an address has no address');
      const isChange = purpose === 'email_change';
      const use = this.tokens.useToken(found, async (transaction, user) => {
        const { id } = user;
        const now = this.clock.now();
        const emailVerifiedAt = email === user.email ? (user.emailVerifiedAt ?? now) : now;
        const named = toUserActor(actor, id);
        if (!isChange) {
          await transaction.update(User, { id }, { emailVerifiedAt });
          await this.audit.record(transaction, toUserEvent('user.email.verified', named, id));
          return;
        }
        await transaction.update(User, { id }, { email, emailVerifiedAt, updatedAt: now });
        await this.tokens.voidTokens(transaction, id);
        const notice = { kind: 'email_changed', recipient: user.email } as const;
        const event = toUserEvent('user.email.changed', named, id);
        await this.outbox.recordWithNotice(transaction, event, notice);
        await this.outbox.addNotice(transaction, event, { kind: 'email_set', recipient: email });
      });
      await translateTakenEmail(use);
    });
  }
}
