import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Environment } from '../config/environment.js';
import type { MailKind } from '../mail/templates.js';
import { isMailEnabled } from '../mail/mail-transport.js';
import { MailWorker, type ComposedMail } from '../mail/mail-worker.js';
import { Outbox, type MailRequest } from '../mail/outbox.js';
import { OneTimeTokens, TOKEN_TTL_MINUTES } from '../users/one-time-tokens.js';
import { User } from '../users/users.service.js';

/** The page that the link of each mail leads to. */
type LinkPages = Readonly<Record<Exclude<MailKind, 'email_change_notice'>, string>>;

/** Fails closed: without a page, a mail would carry the token alone. */
export function readLinkPages({
  passwordResetUrl,
  emailVerificationUrl,
}: Pick<Environment, 'passwordResetUrl' | 'emailVerificationUrl'>): LinkPages {
  if (!passwordResetUrl) throw new Error('Mails need PASSWORD_RESET_URL');
  if (!emailVerificationUrl) throw new Error('Mails need EMAIL_VERIFICATION_URL');
  return {
    password_reset: passwordResetUrl,
    email_verification: emailVerificationUrl,
    email_change: emailVerificationUrl,
  };
}

/** Decides who gets a mail, and makes its token, immediately before the mail is sent. */
@Injectable()
export class LinkMails implements OnModuleInit {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: Outbox,
    private readonly worker: MailWorker,
    private readonly tokens: OneTimeTokens,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    if (!isMailEnabled(this.environment)) return;
    const pages = readLinkPages(this.environment);
    this.worker.start({
      composeMail: (request) => this.composeMail(request, pages),
      findUserId: (request) => this.findUserId(request),
    });
  }

  /** @returns undefined when no account may get the mail; that costs the HTTP request nothing */
  private async composeMail(request: MailRequest, pages: LinkPages): Promise<ComposedMail | undefined> {
    return this.dataSource.transaction(async (transaction) => {
      const user = await this.findRecipient(transaction, request);
      // The row of the user is locked first (one-time-tokens.ts).
      if (!user || !(await this.outbox.hold(transaction, request))) return undefined;
      const { kind, recipient } = request;
      const addressed = { userId: user.id, to: recipient };
      if (kind === 'email_change_notice') return { ...addressed, values: { email: recipient } };
      const { token } = await this.tokens.issueToken(transaction, user.id, kind, recipient);
      // Browsers send no fragment to a server, so the token is in no access log and no Referer (RFC 9110 §10.1.3).
      const link = `${pages[kind]}#token=${token}`;
      return { ...addressed, values: { link, email: recipient, minutes: String(TOKEN_TTL_MINUTES) } };
    });
  }

  private async findUserId(request: MailRequest): Promise<string | undefined> {
    return this.dataSource.transaction(async (transaction) => (await this.findRecipient(transaction, request))?.id);
  }

  private async findRecipient(transaction: EntityManager, request: MailRequest): Promise<User | undefined> {
    const { kind, recipient, userId } = request;
    const where = userId === null ? { email: recipient } : { id: userId };
    const user = await transaction.findOne(User, { where, lock: { mode: 'pessimistic_read' } });
    if (!user?.isActive) return undefined;
    if (kind === 'email_verification' && user.emailVerifiedAt !== null) return undefined;
    // The owner of a taken address gets no link with which to lose the account to this one.
    const isTaken =
      kind === 'email_change' && user.email !== recipient && (await transaction.existsBy(User, { email: recipient }));
    return isTaken ? undefined : user;
  }
}
