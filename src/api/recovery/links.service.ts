/**
 * Links by e-mail, for users who reset a password, or prove or change an address. The request only goes to the outbox;
 * the worker looks the account up, issues a one-time token and sends the link; recovery.service.ts uses the token.
 * Invariant: an anonymous request costs the same work for every address, and a token is never stored.
 */
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor, OwnCall } from '../../foundation/access/actor.js';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { Environment } from '../../foundation/config/environment.js';
import { isMailEnabled } from '../../domain/mail/mail-transport.js';
import { MailWorker, type ComposedMail } from '../../domain/mail/mail-worker.js';
import { Outbox, type MailRequest } from '../../domain/mail/outbox.js';
import { isNotice, type MailKind, type NoticeKind } from '../../domain/mail/templates.js';
import { hasPassword } from '../../domain/passwords/password-hasher.js';
import { Reauthentication, type OwnProof } from '../../domain/second-factors/reauthentication.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import {
  buildLink,
  INVITATION_TTL_DAYS,
  OneTimeTokens,
  TOKEN_TTL_MINUTES,
} from '../../domain/users/one-time-tokens.js';
import { UniformRegistration } from '../../domain/users/uniform-registration.js';
import { User } from '../../domain/users/user.entity.js';

@Injectable()
export class LinkRequests {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: Outbox,
    private readonly throttle: Throttle,
    private readonly reauthentication: Reauthentication,
    private readonly audit: AuditLog,
  ) {}

  /** @throws {ProblemException} too_many_requests, for addresses without an account too */
  async requestLink(kind: 'password_reset' | 'email_verification', email: string, actor: Actor): Promise<void> {
    await this.throttle.countMails([email], actor.address);
    await this.outbox.addRequest(kind, email, actor);
    this.audit.logOnly('user.mail.requested', actor, { reason: kind });
  }

  /**
   * The new address gets a link and the old one a notice. Only the worker checks whether the new address is taken, so
   * that the response does not reveal it.
   */
  async requestEmailChange(call: OwnCall, proof: OwnProof, newEmail: string): Promise<void> {
    await this.reauthentication.authorizeAction(call, proof, async ({ id: userId, email }, useProof) => {
      const { actor } = call;
      await this.throttle.countMails([email, newEmail], actor.address);
      await this.dataSource.transaction(async (transaction) => {
        // Its lock orders this request and a change of the password, which voids the requests made with the old one.
        await useProof(transaction);
        const requested = { userId, requester: actor };
        await this.outbox.addRequestWith(transaction, { kind: 'email_change', recipient: newEmail, ...requested });
        await this.outbox.addRequestWith(transaction, { kind: 'email_change_notice', recipient: email, ...requested });
        await this.audit.record(transaction, toUserEvent('user.email.change_requested', actor, userId));
      });
    });
  }
}

type LinkPages = Readonly<Record<Exclude<MailKind, 'email_change_notice' | NoticeKind>, string>>;

/** Refuses to start without the pages, because a mail would carry the bare token. */
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
    account_invitation: passwordResetUrl,
  };
}

@Injectable()
export class LinkMails implements OnModuleInit {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: Outbox,
    private readonly worker: MailWorker,
    private readonly tokens: OneTimeTokens,
    private readonly registration: UniformRegistration,
    private readonly environment: Environment,
  ) {}

  onModuleInit(): void {
    if (!isMailEnabled(this.environment)) return;
    const pages = readLinkPages(this.environment);
    this.worker.start({
      composeMail: (request) => this.composeMail(request, pages),
      findUserId: (request) => this.findUserId(request),
      createAccount: (request) => this.registration.createAccount(request),
    });
  }

  /** @returns undefined when no account may get the mail */
  private async composeMail(request: MailRequest, pages: LinkPages): Promise<ComposedMail | undefined> {
    return this.dataSource.transaction(async (transaction) => {
      const user = await this.findRecipient(transaction, request);
      // `findRecipient` has locked the user's row before the outbox row: every transaction locks in this order (one-
      // time-tokens.ts).
      if (!user || !(await this.outbox.holdRequest(transaction, request))) return undefined;
      const { kind, recipient } = request;
      const addressed = { userId: user.id, to: recipient };
      if (kind === 'email_change_notice' || isNotice(kind)) return { ...addressed, values: { email: recipient } };
      const { token } = await this.tokens.issueToken(transaction, user.id, kind, recipient);
      const link = buildLink(pages[kind], token);
      const lives = { minutes: String(TOKEN_TTL_MINUTES), days: String(INVITATION_TTL_DAYS) };
      return { ...addressed, values: { link, email: recipient, ...lives } };
    });
  }

  private async findUserId(request: MailRequest): Promise<string | undefined> {
    return this.dataSource.transaction(async (transaction) => (await this.findRecipient(transaction, request))?.id);
  }

  private async findRecipient(transaction: EntityManager, request: MailRequest): Promise<User | undefined> {
    const { kind, recipient, userId } = request;
    const where = userId === null ? { email: recipient } : { id: userId };
    const user = await transaction.findOne(User, { where, lock: { mode: 'pessimistic_read' } });
    if (user && isNotice(kind)) return user;
    if (!user?.isActive) return undefined;
    if (kind === 'email_verification' && user.emailVerifiedAt !== null) return undefined;
    // The user has chosen a password meanwhile, or an operator has set another address.
    if (kind === 'account_invitation' && (hasPassword(user.passwordHash) || user.email !== recipient)) return undefined;
    // A link for a taken address would give another user's address to this account.
    const isTaken =
      kind === 'email_change' && user.email !== recipient && (await transaction.existsBy(User, { email: recipient }));
    return isTaken ? undefined : user;
  }
}
