/**
 * What users do with their own account: change the password, see and end sessions, delete it. An access token alone shows
 * and ends sessions; the password, and a second factor if there is one, are asked for again where a thief of the token
 * could keep the owner out. When a call that ends sessions has returned, no verifier accepts their tokens.
 */
import { Body, Controller, Delete, Get, Param, Post, Query, Req } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toOwnCall } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { MOMENT, NETWORK, PasswordField } from '../../foundation/common/fields.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.dto.js';
import { REAUTHENTICATION_PROBLEMS } from '../../domain/second-factors/reauthentication.js';
import { problems } from '../../foundation/problems/problems.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { type Session } from '../../domain/tokens/session.entity.js';
import { AccountDeletion } from './account-deletion.js';
import { PasswordChange } from './password-change.js';
import { CURRENT_PASSWORD, FreshFactorFields } from './second-factor.dto.js';
import { SessionFields } from './session.dto.js';

class ChangePasswordRequest extends FreshFactorFields {
  @PasswordField(CURRENT_PASSWORD) current_password!: string;

  @PasswordField({
    description: 'It needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
    example: EXAMPLES.newPassword,
  })
  new_password!: string;
}

class DeleteAccountRequest extends FreshFactorFields {
  @PasswordField(CURRENT_PASSWORD) password!: string;
}

interface OwnSession {
  readonly session: Session;
  readonly isCurrent: boolean;
}

class OwnSessionResponse extends SessionFields {
  @ApiProperty({ description: 'whether the access token of this request belongs to it', example: true })
  is_current!: boolean;

  @ApiProperty({ ...MOMENT, description: 'the last refresh, or the login' }) last_used_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the last refresh, or of the login' })
  last_used_from!: string | null;

  static from({ session, isCurrent }: OwnSession): OwnSessionResponse {
    return {
      ...SessionFields.toFields(session),
      is_current: isCurrent,
      last_used_at: session.rotatedAt.toISOString(),
      last_used_from: session.rotatedFrom ?? session.createdFrom,
    };
  }
}

class OwnSessionPageResponse extends createPageResponse(OwnSessionResponse) {}

@ApiTags('users')
@Controller('api/v0/users/me')
export class AccountController {
  constructor(
    private readonly passwords: PasswordChange,
    private readonly deletion: AccountDeletion,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
  ) {}

  @Post('password')
  @RequireUser({
    summary: 'Change your password',
    description:
      'Ends all other sessions of the user; this one stays. A wrong current password is counted like a failed login ' +
      'and answered with 403, because the access token is valid. An account with a second factor is asked for a fresh ' +
      'one: `code` or `passkey`.',
    refusals: REAUTHENTICATION_PROBLEMS,
    done: 'The password is changed, and every other session has ended',
  })
  async changePassword(@Req() request: Request, @Body() body: ChangePasswordRequest): Promise<void> {
    const { current_password: password, new_password, code, passkey } = body;
    await this.passwords.changePassword(toOwnCall(request), { password, code, passkey }, new_password);
  }

  @Post('delete')
  @RequireUser({
    summary: 'Delete your account',
    description:
      'Deletes the account with all of its sessions and memberships. It cannot be undone. Needs the password, and a fresh ' +
      'second factor if the account has one. 409 for the last active admin of a household with other members.',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.lastAdmin],
    done: 'The account is deleted, and every session of it has ended',
  })
  async deleteOwnAccount(@Req() request: Request, @Body() body: DeleteAccountRequest): Promise<void> {
    await this.deletion.deleteAccount(toOwnCall(request), body);
  }

  @Get('sessions')
  @RequireUser({
    summary: 'List your sessions',
    description: 'The live ones, oldest login first.',
    returns: OwnSessionPageResponse,
  })
  async listOwnSessions(@Req() request: Request, @Query() query: PageQuery): Promise<OwnSessionPageResponse> {
    const principal = getPrincipal(request, 'user');
    const { items, nextCursor } = await this.sessions.listLiveSessions(principal.userId, toPageRequest(query));
    const own = items.map((session) => ({ session, isCurrent: session.id === principal.sessionId }));
    return OwnSessionPageResponse.from({ items: own, nextCursor });
  }

  @Delete('sessions')
  @RequireUser({
    summary: 'End all your sessions but this one',
    done: 'Every other session has ended, by this request or before',
  })
  async endOtherSessions(@Req() request: Request): Promise<void> {
    const { principal, actor } = toOwnCall(request);
    await this.propagation.propagateAfter(() =>
      this.sessions.endOtherSessions(principal.userId, principal.sessionId, actor),
    );
  }

  @Delete('sessions/:id')
  @RequireUser({
    summary: 'End one of your sessions',
    description: 'This one too, as a logout does. A session of another user is not found.',
    refusals: [problems.notFound],
    done: 'The session has ended, by this request or before',
  })
  async endOwnSession(@Req() request: Request, @Param('id') id: string): Promise<void> {
    const { principal, actor } = toOwnCall(request);
    await this.propagation.propagateAfter(() => this.sessions.endOwnSession(id, principal.userId, actor));
  }
}
