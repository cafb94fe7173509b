/**
 * What the token of a link does: sets a new password, proves an address, or changes it. The token is looked up before the
 * expensive part, and used in the transaction of the act, which locks the row of the user first.
 * Invariant: the moment of the first proof of an address (`email_verified_at`) never changes. Before it any client could have
 * registered the address and left second factors behind that log in, so a reset by mail removes those that are older.
 */
import { Body, Controller, Injectable, Module, Post, Req, type DynamicModule } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import type { EntityManager } from 'typeorm';
import { toActor, toOwnCall, toUserActor, type Actor } from '../../foundation/access/actor.js';
import { Answers, Public, RequireUser } from '../../foundation/access/require.js';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { Clock } from '../../foundation/common/clock.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { EmailField, NEW_PASSWORD, NewEmailField, PasswordField, TextField } from '../../foundation/common/fields.js';
import type { Environment } from '../../foundation/config/environment.js';
import { isMailEnabled } from '../../domain/mail/mail-transport.js';
import { MailModule } from '../../domain/mail/mail-worker.js';
import { Outbox } from '../../domain/mail/outbox.js';
import { NewPasswords } from '../../domain/passwords/new-passwords.js';
import { PasswordsModule, REAUTHENTICATION_PROBLEMS } from '../../domain/passwords/password-verifier.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { problems } from '../../foundation/problems/problems.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { FactorChanges } from '../../domain/second-factors/factor-changes.js';
import { SecondFactorsModule } from '../../domain/second-factors/second-factors.module.js';
import { Throttled } from '../../foundation/throttling/throttle.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { TokensModule } from '../../domain/tokens/user-door.js';
import { EMAIL_PURPOSES, OneTimeTokens, RESET_PURPOSES } from '../../domain/users/one-time-tokens.js';
import { determineFirstProof, getFirstProof, setPassword } from '../../domain/users/accounts.js';
import { UsersModule } from '../../domain/users/users.controller.js';
import { refuseTakenEmail, User } from '../../domain/users/users.service.js';
import { LinkMails, LinkRequests } from './links.js';

@Injectable()
class PasswordResets {
  constructor(
    private readonly tokens: OneTimeTokens,
    private readonly passwords: NewPasswords,
    private readonly factors: FactorChanges,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly outbox: Outbox,
    private readonly clock: Clock,
  ) {}

  /**
   * Ends all sessions of the user. When it has returned, no verifier accepts their tokens. A refused password does not use
   * the token.
   */
  async resetPassword(token: string, newPassword: string, actor: Actor): Promise<void> {
    this.passwords.checkNewPassword(newPassword, '/new_password');
    this.tokens.refuseUnreadable(token);
    await this.propagation.propagateAfter(async () => {
      // Before the hashing: an anonymous client without a valid token costs no bcrypt.
      const found = await this.tokens.findToken(token, RESET_PURPOSES);
      const isByMail = found.email !== null;
      const passwordHash = await this.passwords.hashNewPassword(newPassword, actor);
      await this.tokens.useToken(found, async (transaction, user) => {
        const time = this.clock.now();
        // It cannot refuse: `useToken` has locked the row, and uses no token of a disabled account.
        await setPassword(transaction, user, passwordHash, time);
        const removed = isByMail ? await this.proveEmail(transaction, user, time) : undefined;
        const count = await this.sessions.endAllSessions(transaction, user.id, 'password_reset');
        const details = { token_from: isByMail ? 'mail' : 'operator', ended_sessions: count, removed_factors: removed };
        const described = { time, details, logFields: { count } };
        const event = toUserEvent('user.password.reset', toUserActor(actor, user.id), user.id, described);
        await this.outbox.recordWithNotice(transaction, event, {
          kind: 'password_reset_notice',
          recipient: user.email,
        });
      });
    });
  }

  /** @returns the factors that were removed, because they are older than the first proof of the address */
  private async proveEmail(transaction: EntityManager, user: User, now: Date): Promise<object> {
    const { id, emailVerifiedAt } = user;
    const firstProof = getFirstProof(user);
    const removed = await this.factors.removeFactors(transaction, id, firstProof ?? undefined);
    if (!emailVerifiedAt) await transaction.update(User, { id }, { emailVerifiedAt: firstProof ?? now });
    return removed;
  }
}

@Injectable()
class EmailConfirmations {
  constructor(
    private readonly tokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
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
        const emailVerifiedAt = await determineFirstProof(transaction, user, email, this.clock.now());
        const named = toUserActor(actor, id);
        if (!isChange) {
          await transaction.update(User, { id }, { emailVerifiedAt });
          await this.audit.record(transaction, toUserEvent('user.email.verified', named, id));
          return;
        }
        await transaction.update(User, { id }, { email, emailVerifiedAt, updatedAt: this.clock.now() });
        await this.tokens.voidTokens(transaction, id);
        const notice = { kind: 'email_changed', recipient: user.email } as const;
        await this.outbox.recordWithNotice(transaction, toUserEvent('user.email.changed', named, id), notice);
      });
      await refuseTakenEmail(use);
    });
  }
}

const MAX_TOKEN_LENGTH = 128;
const ACCEPTED = 'The request is recorded. Whether a mail follows is not told';

class LinkRequest {
  @EmailField() email!: string;
}

class ConfirmPasswordResetRequest {
  @TextField(MAX_TOKEN_LENGTH, {
    description: 'the token of the link, or the one that an operator handed over',
    example: EXAMPLES.resetToken,
  })
  token!: string;

  @PasswordField(NEW_PASSWORD) new_password!: string;
}

class ConfirmEmailRequest {
  @TextField(MAX_TOKEN_LENGTH, { description: 'the token of the link', example: EXAMPLES.emailToken }) token!: string;
}

class ChangeEmailRequest {
  @PasswordField({ description: 'the current password' }) password!: string;
  @NewEmailField() new_email!: string;
}

/** Works without a mail server too: an operator can hand a token over. */
@ApiTags('auth')
@Controller('api/v0/auth/password-reset')
class PasswordResetController {
  constructor(private readonly resets: PasswordResets) {}

  @Post('confirm')
  @Public()
  @Throttled('link')
  @ApiProblems(problems.invalidLink, problems.hashingBusy)
  @ApiOperation({
    summary: 'Set a new password with the token of a link',
    description:
      'Ends all sessions of the user. The token is valid once, for 30 minutes, and void after any change of the ' +
      'password or of the address. A password that is refused does not use the token. A link by e-mail also removes the ' +
      'second factors that were made before the first proof of the address.',
  })
  @Answers(204, 'The password is set, and every session of the user has ended')
  async confirmPasswordReset(@Req() request: Request, @Body() body: ConfirmPasswordResetRequest): Promise<void> {
    await this.resets.resetPassword(body.token, body.new_password, toActor(request));
  }
}

/** Needs mail: production without MAIL_URL does not have these routes. */
@ApiTags('auth')
@Controller('api/v0/auth')
class LinksController {
  constructor(
    private readonly requests: LinkRequests,
    private readonly confirmations: EmailConfirmations,
  ) {}

  @Post('password-reset')
  @Public()
  @Throttled('mail')
  @ApiOperation({
    summary: 'Request a link to reset the password',
    description:
      'Every well-formed address gets the same response, and costs the same work. An active account gets a link to ' +
      'PASSWORD_RESET_URL. Requests are counted per network and per address, with an account or without.',
  })
  @Answers(202, ACCEPTED)
  async requestPasswordReset(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.requestLink('password_reset', email, toActor(request));
  }

  @Post('email-verification')
  @Public()
  @Throttled('mail')
  @ApiOperation({
    summary: 'Request a link that verifies the e-mail address',
    description: 'As a request to reset the password. An account whose address is verified gets no mail.',
  })
  @Answers(202, ACCEPTED)
  async requestEmailVerification(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.requestLink('email_verification', email, toActor(request));
  }

  @Post('email-verification/confirm')
  @Public()
  @Throttled('link')
  @ApiProblems(problems.invalidLink, problems.emailTaken)
  @ApiOperation({
    summary: 'Confirm an e-mail address with the token of a link',
    description:
      'Verifies the address of the account, or changes it if the link was sent for a change. The token is valid once, ' +
      'for 30 minutes, and void after any change of the password. 409 when the new address was taken meanwhile.',
  })
  @Answers(204, 'The address is verified; after a change, it is the address of the account')
  async confirmEmail(@Req() request: Request, @Body() { token }: ConfirmEmailRequest): Promise<void> {
    await this.confirmations.confirmEmail(token, toActor(request));
  }
}

@ApiTags('users')
@Controller('api/v0/users/me')
class OwnEmailController {
  constructor(private readonly requests: LinkRequests) {}

  @Post('email')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Change your e-mail address',
    description:
      'The new address gets a link, whose token POST /api/v0/auth/email-verification/confirm takes; until then nothing ' +
      'changes. The old address is notified. The response does not tell whether the new address is taken. A wrong password ' +
      'is counted like a failed login.',
  })
  @Answers(202, 'The request is recorded')
  async changeEmail(@Req() request: Request, @Body() body: ChangeEmailRequest): Promise<void> {
    await this.requests.requestEmailChange(toOwnCall(request), body.password, body.new_email);
  }
}

@Module({})
export class RecoveryModule {
  static forRoot(environment: Environment): DynamicModule {
    // A guard would leave these paths in the router and in the OpenAPI document.
    const controllersWithMail = isMailEnabled(environment) ? [LinksController, OwnEmailController] : [];
    return {
      module: RecoveryModule,
      imports: [PasswordsModule, MailModule, SecondFactorsModule, TokensModule, UsersModule],
      controllers: [PasswordResetController, ...controllersWithMail],
      providers: [LinkRequests, LinkMails, PasswordResets, EmailConfirmations],
    };
  }
}
