import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiAcceptedResponse, ApiNoContentResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Public } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { Throttled } from '../throttling/throttle.js';
import { LinkConfirmations } from './link-confirmations.js';
import { LinkRequests } from './link-requests.js';
import { ConfirmEmailRequest, LinkRequest } from './recovery.dto.js';

const ACCEPTED = { description: 'The request is recorded. Whether a mail follows is not told' } as const;

/** Routes that need mail: production without MAIL_URL does not have them. */
@ApiTags('auth')
@Controller('api/v0/auth')
export class LinksController {
  constructor(
    private readonly requests: LinkRequests,
    private readonly confirmations: LinkConfirmations,
  ) {}

  @Post('password-reset')
  @HttpCode(202)
  @Public()
  @Throttled('mail')
  @ApiOperation({
    summary: 'Request a link to reset the password',
    description:
      'Every well-formed address gets the same response, and costs the same work. An active account gets a link to ' +
      'PASSWORD_RESET_URL. Requests are counted per network and per address, with an account or without.',
  })
  @ApiAcceptedResponse(ACCEPTED)
  async requestPasswordReset(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.add('password_reset', email, toActor(request));
  }

  @Post('email-verification')
  @HttpCode(202)
  @Public()
  @Throttled('mail')
  @ApiOperation({
    summary: 'Request a link that verifies the e-mail address',
    description: 'As a request to reset the password. An account whose address is verified gets no mail.',
  })
  @ApiAcceptedResponse(ACCEPTED)
  async requestEmailVerification(@Req() request: Request, @Body() { email }: LinkRequest): Promise<void> {
    await this.requests.add('email_verification', email, toActor(request));
  }

  @Post('email-verification/confirm')
  @HttpCode(204)
  @Public()
  @Throttled('link')
  @ApiProblems(problems.invalidLink, problems.emailTaken)
  @ApiOperation({
    summary: 'Confirm an e-mail address with the token of a link',
    description:
      'Verifies the address of the account, or changes it if the link was sent for a change. The token is valid once, ' +
      'for 30 minutes, and void after any change of the password. 409 when the new address was taken meanwhile.',
  })
  @ApiNoContentResponse({ description: 'The address is verified; after a change, it is the address of the account' })
  async confirmEmail(@Req() request: Request, @Body() { token }: ConfirmEmailRequest): Promise<void> {
    await this.confirmations.confirmEmail(token, toActor(request));
  }
}
