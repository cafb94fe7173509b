import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiAcceptedResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireUser } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { REAUTHENTICATION_PROBLEMS } from '../passwords/password-verifier.js';
import { LinkRequests } from './link-requests.js';
import { ChangeEmailRequest } from './recovery.dto.js';

/** Needs mail: production without MAIL_URL does not have it. */
@ApiTags('users')
@Controller('api/v0/users/me')
export class OwnEmailController {
  constructor(private readonly requests: LinkRequests) {}

  @Post('email')
  @HttpCode(202)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Change your e-mail address',
    description:
      'The new address gets a link, whose token POST /api/v0/auth/email-verification/confirm takes; until then nothing ' +
      'changes. The old address is notified. The response does not tell whether the new address is taken. A wrong password ' +
      'is counted like a failed login.',
  })
  @ApiAcceptedResponse({ description: 'The request is recorded' })
  async changeEmail(@Req() request: Request, @Body() body: ChangeEmailRequest): Promise<void> {
    await this.requests.addChange(getPrincipal(request, 'user'), body.password, body.new_email, toActor(request));
  }
}
