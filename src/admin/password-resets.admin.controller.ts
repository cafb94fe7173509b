import { Controller, Param, Post, Req } from '@nestjs/common';
import { ApiCreatedResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { OneTimeTokens } from '../users/one-time-tokens.js';
import { PasswordResetResponse } from './password-reset.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/users')
export class PasswordResetsAdminController {
  constructor(private readonly tokens: OneTimeTokens) {}

  @Post(':id/password-reset')
  @RequireAdmin('users')
  @ApiProblems(problems.notFound, problems.userDisabled)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({
    summary: 'Issue a token with which a user resets the password',
    description:
      'For the operator to hand over, also without a mail server. The user sends it to ' +
      'POST /api/v0/auth/password-reset/confirm. It replaces the one that was issued before. ' +
      'A disabled user gets none.',
  })
  @ApiCreatedResponse({ type: PasswordResetResponse })
  async issuePasswordReset(@Req() request: Request, @Param('id') id: string): Promise<PasswordResetResponse> {
    return PasswordResetResponse.from(await this.tokens.issueTokenForOperator(id, toActor(request)));
  }
}
