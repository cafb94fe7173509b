import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
import { ApiNoContentResponse, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireUser } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { PageQuery, toPageRequest } from '../http/page.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { REAUTHENTICATION_PROBLEMS } from '../passwords/password-verifier.js';
import { ChangePasswordRequest, DeleteAccountRequest, markCurrent, OwnSessionPageResponse } from './account.dto.js';
import { AccountService } from './account.service.js';

@ApiTags('users')
@Controller('api/v0/users/me')
export class AccountController {
  constructor(private readonly account: AccountService) {}

  @Post('password')
  @HttpCode(204)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Change your password',
    description:
      'Ends all other sessions of the user; this one stays. A wrong current password is counted like a failed login ' +
      'and answered with 403, because the access token is valid.',
  })
  @ApiNoContentResponse({ description: 'The password is changed, and every other session has ended' })
  async changePassword(@Req() request: Request, @Body() body: ChangePasswordRequest): Promise<void> {
    const passwords = { current: body.current_password, next: body.new_password };
    await this.account.changePassword(getPrincipal(request, 'user'), passwords, toActor(request));
  }

  @Post('delete')
  @HttpCode(204)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Delete your account',
    description: 'Deletes the account and all of its sessions. It cannot be undone. Needs the password.',
  })
  @ApiNoContentResponse({ description: 'The account is deleted, and every session of it has ended' })
  async deleteOwnAccount(@Req() request: Request, @Body() { password }: DeleteAccountRequest): Promise<void> {
    await this.account.delete(getPrincipal(request, 'user'), password, toActor(request));
  }

  @Get('sessions')
  @RequireUser()
  @ApiOperation({ summary: 'List your sessions', description: 'The live ones, oldest login first.' })
  @ApiOkResponse({ type: OwnSessionPageResponse })
  async listOwnSessions(@Req() request: Request, @Query() query: PageQuery): Promise<OwnSessionPageResponse> {
    const principal = getPrincipal(request, 'user');
    const page = await this.account.listSessions(principal, toPageRequest(query));
    return OwnSessionPageResponse.from(markCurrent(page, principal.sessionId));
  }

  @Delete('sessions')
  @HttpCode(204)
  @RequireUser()
  @ApiOperation({ summary: 'End all your sessions but this one' })
  @ApiNoContentResponse({ description: 'Every other session has ended, by this request or before' })
  async endOtherSessions(@Req() request: Request): Promise<void> {
    await this.account.endOtherSessions(getPrincipal(request, 'user'), toActor(request));
  }

  @Delete('sessions/:id')
  @HttpCode(204)
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({
    summary: 'End one of your sessions',
    description: 'This one too, as a logout does. A session of another user is not found.',
  })
  @ApiNoContentResponse({ description: 'The session has ended, by this request or before' })
  async endOwnSession(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.account.endSession(getPrincipal(request, 'user'), id, toActor(request));
  }
}
