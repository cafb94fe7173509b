import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiNoContentResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Public } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { Throttled } from '../throttling/throttle.js';
import { LinkConfirmations } from './link-confirmations.js';
import { ConfirmPasswordResetRequest } from './recovery.dto.js';

/** Also without a mail server: an operator can hand a token over. */
@ApiTags('auth')
@Controller('api/v0/auth/password-reset')
export class PasswordResetController {
  constructor(private readonly confirmations: LinkConfirmations) {}

  @Post('confirm')
  @HttpCode(204)
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
  @ApiNoContentResponse({ description: 'The password is set, and every session of the user has ended' })
  async confirmPasswordReset(@Req() request: Request, @Body() body: ConfirmPasswordResetRequest): Promise<void> {
    await this.confirmations.resetPassword(body.token, body.new_password, toActor(request));
  }
}
