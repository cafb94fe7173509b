import { Body, Controller, Post, Req } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor, toOwnCall } from '../../foundation/access/actor.js';
import { Public, RequireUser } from '../../foundation/access/route-decorators.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { EmailField, NEW_PASSWORD, NewEmailField, PasswordField, TextField } from '../../foundation/common/fields.js';
import { REAUTHENTICATION_PROBLEMS } from '../../domain/second-factors/reauthentication.js';
import { problems } from '../../foundation/problems/problems.js';
import { Throttled } from '../../foundation/throttling/throttle.js';
import { FreshFactorFields } from '../account/second-factor.dto.js';
import { LinkRequests } from './links.service.js';
import { PasswordResets, EmailConfirmations } from './recovery.service.js';

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

class ChangeEmailRequest extends FreshFactorFields {
  @PasswordField({ description: 'the current password' }) password!: string;
  @NewEmailField() new_email!: string;
}

/** Exists without a mail server too, because an operator can hand a token over. */
@ApiTags('auth')
@Controller('api/v0/auth/password-reset')
export class PasswordResetController {
  constructor(private readonly resets: PasswordResets) {}

  @Post('confirm')
  @Public({
    summary: 'Set a new password with the token of a link',
    description:
      'Ends all sessions of the user. The token is valid once, for 30 minutes, and void after any change of the ' +
      'password or of the address. A password that is refused does not use the token. Second factors stay: logins go on ' +
      'to ask for them.',
    refusals: [problems.invalidLink, problems.hashingBusy],
    done: 'The password is set, and every session of the user has ended',
  })
  @Throttled('link')
  async confirmPasswordReset(@Req() request: Request, @Body() body: ConfirmPasswordResetRequest): Promise<void> {
    await this.resets.resetPassword(body.token, body.new_password, toActor(request));
  }
}

/** Absent in production without MAIL_URL (recovery.module.ts). */
@ApiTags('auth')
@Controller('api/v0/auth')
export class LinksController {
  constructor(
    private readonly requests: LinkRequests,
    private readonly confirmations: EmailConfirmations,
  ) {}

  @Post('password-reset')
  @Public({
    summary: 'Request a link to reset the password',
    description:
      'Every well-formed address gets the same response, and costs the same work. An active account gets a link to ' +
      'PASSWORD_RESET_URL. Requests are counted per network and per address, with an account or without.',
    accepted: ACCEPTED,
  })
  @Throttled('mail')
  async requestPasswordReset(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.requestLink('password_reset', email, toActor(request));
  }

  @Post('email-verification')
  @Public({
    summary: 'Request a link that verifies the e-mail address',
    description: 'As a request to reset the password. An account whose address is verified gets no mail.',
    accepted: ACCEPTED,
  })
  @Throttled('mail')
  async requestEmailVerification(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.requestLink('email_verification', email, toActor(request));
  }

  @Post('email-verification/confirm')
  @Public({
    summary: 'Confirm an e-mail address with the token of a link',
    description:
      'Verifies the address of the account, or changes it if the link was sent for a change. The token is valid once, ' +
      'for 30 minutes, and void after any change of the password. 409 when the new address was taken meanwhile.',
    refusals: [problems.invalidLink, problems.emailTaken],
    done: 'The address is verified; after a change, it is the address of the account',
  })
  @Throttled('link')
  async confirmEmail(@Req() request: Request, @Body() { token }: ConfirmEmailRequest): Promise<void> {
    await this.confirmations.confirmEmail(token, toActor(request));
  }
}

@ApiTags('users')
@Controller('api/v0/users/me')
export class OwnEmailController {
  constructor(private readonly requests: LinkRequests) {}

  @Post('email')
  @RequireUser({
    summary: 'Change your e-mail address',
    description:
      'The new address gets a link, whose token POST /api/v0/auth/email-verification/confirm takes; until then nothing ' +
      'changes. The old address is notified. The response does not tell whether the new address is taken. A wrong password ' +
      'is counted like a failed login. An account with a second factor is asked for a fresh one: `code` or `passkey`.',
    refusals: REAUTHENTICATION_PROBLEMS,
    accepted: 'The request is recorded',
  })
  async changeEmail(@Req() request: Request, @Body() body: ChangeEmailRequest): Promise<void> {
    await this.requests.requestEmailChange(toOwnCall(request), body, body.new_email);
  }
}
