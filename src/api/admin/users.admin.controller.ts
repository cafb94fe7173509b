import { Body, Delete, Get, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { Request } from 'express';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { toActor } from '../../foundation/access/actor.js';
import { SessionFields } from '../account/session.dto.js';
import {
  EmailField,
  FlagField,
  MOMENT,
  MomentField,
  NETWORK,
  NewEmailField,
  NEW_PASSWORD,
  NULLABLE_MOMENT,
  parseMoment,
  PasswordField,
  SearchField,
  SwitchField,
} from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  createPageResponse,
  CREATION_ORDER,
  PageQuery,
  SortField,
  toPageRequest,
} from '../../foundation/http/page.dto.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { problems, refuseField } from '../../foundation/problems/problems.js';
import { FactorChanges } from '../../domain/second-factors/factor-changes.js';
import { SESSION_END_REASONS, type Session } from '../../domain/tokens/session.entity.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { UserResponse } from '../account/user.dto.js';
import { OneTimeTokens, type IssuedLink } from '../../domain/users/one-time-tokens.js';
import { Registration } from '../../domain/users/registration.js';
import { UserChanges, type UserChange } from '../../domain/users/user-changes.js';
import { UsersService, type Account, type UserFilter } from '../../domain/users/users.service.js';

class CreateUserRequest {
  @NewEmailField() email!: string;

  @PasswordField(
    {
      ...NEW_PASSWORD,
      description: 'better left out: the user then chooses one. Refused with ADMIN_SET_PASSWORDS=refused',
    },
    { optional: true },
  )
  password?: string;
}

class UpdateUserRequest {
  @SwitchField({ example: false, description: 'false ends all sessions and refuses logins' }) is_active?: boolean;
  @NewEmailField({ optional: true }) email?: string;

  @SwitchField({
    example: true,
    description: 'whether the address counts as proven. Without it, another address does not',
  })
  email_verified?: boolean;
}

function toUserChange({ is_active, email, email_verified }: UpdateUserRequest): UserChange {
  if (is_active === undefined && email === undefined && email_verified === undefined)
    refuseField('/is_active', 'must be true or false, unless email or email_verified is sent');
  return { isActive: is_active, email, isEmailVerified: email_verified };
}

export class AdminUserResponse extends UserResponse {
  @ApiProperty({ description: 'whether the link of a mail, or an operator, has proven the address', example: true })
  email_verified!: boolean;

  static override from(user: Account): AdminUserResponse {
    return { ...UserResponse.from(user), email_verified: user.emailVerifiedAt !== null };
  }
}

class UserPageResponse extends createPageResponse(AdminUserResponse) {}

const ORDERS = { ...CREATION_ORDER, email: 'email' };

class UsersQuery extends PageQuery {
  @SortField('UserOrder', ORDERS) sort?: string;
  @FlagField('only disabled users') disabled?: true;
  @FlagField('only users without a proven e-mail address') unverified?: true;
  @FlagField('only users without a second factor') without_factor?: true;

  @FlagField(
    'only users of whom a login or a code is refused now because of wrong ones; pages may be shorter than the limit',
  )
  throttled?: true;

  @MomentField('only users created at or after this moment') created_since?: string;
}

/** In a body, because browsers, proxies and their logs keep the query of a URL (ASVS 14.2.1). */
class UserSearchRequest extends UsersQuery {
  @ApiPropertyOptional({ type: 'integer', example: 50 }) override limit?: number;
  @ApiPropertyOptional({ example: Buffer.from(EXAMPLES.id).toString('base64url') }) override cursor?: string;
  @EmailField({ optional: true }) email?: string;
  @SearchField('alice', 'only users whose e-mail address contains this, in any case') search?: string;
}

function toUserFilter(query: UserSearchRequest): UserFilter {
  return {
    email: query.email,
    search: query.search,
    isDisabled: query.disabled === true,
    isUnverified: query.unverified === true,
    hasNoFactor: query.without_factor === true,
    isThrottled: query.throttled === true,
    createdSince: parseMoment(query.created_since),
  };
}

export class SessionResponse extends SessionFields {
  @ApiProperty({ ...MOMENT, description: 'the last refresh, or the login' }) rotated_at!: string;
  @ApiProperty({ ...NETWORK, description: 'the network of the last refresh' }) rotated_from!: string | null;
  @ApiProperty(NULLABLE_MOMENT) ended_at!: string | null;

  @ApiProperty({ type: String, enum: [...SESSION_END_REASONS, null], nullable: true, example: null })
  end_reason!: string | null;

  static from(session: Session): SessionResponse {
    return {
      ...SessionFields.toFields(session),
      rotated_at: session.rotatedAt.toISOString(),
      rotated_from: session.rotatedFrom,
      ended_at: session.endedAt?.toISOString() ?? null,
      end_reason: session.endReason,
    };
  }
}

class UserSessionsQuery extends PageQuery {
  @SortField('SessionOrder') sort?: string;
  @FlagField('only sessions that have neither ended nor expired') live?: true;
}

class SessionPageResponse extends createPageResponse(SessionResponse) {}

export class PasswordResetResponse {
  @ApiProperty({ description: 'shown once; valid once', example: EXAMPLES.resetToken }) token!: string;

  @ApiPropertyOptional({
    description: 'PASSWORD_RESET_URL with the token; absent when it is not set',
    example: `https://app.example.org/password-reset#token=${EXAMPLES.resetToken}`,
  })
  link?: string;

  @ApiProperty({ ...MOMENT, description: '30 minutes from now; of an invitation, 7 days' }) expires_at!: string;

  static from({ token, link, expiresAt }: IssuedLink): PasswordResetResponse {
    return { token, ...(link !== undefined && { link }), expires_at: expiresAt.toISOString() };
  }
}

export class CreatedUserResponse extends AdminUserResponse {
  @ApiPropertyOptional({
    type: PasswordResetResponse,
    description: 'for the operator to hand over; absent when it is sent by mail, or a password was given',
    example: { token: EXAMPLES.resetToken, expires_at: '2026-11-29T08:41:07.512Z' },
  })
  invitation?: PasswordResetResponse;
}

@AdminController('/users')
export class UsersAdminController {
  constructor(
    private readonly registration: Registration,
    private readonly users: UsersService,
    private readonly changes: UserChanges,
    private readonly sessions: SessionsService,
    private readonly factorChanges: FactorChanges,
    private readonly oneTimeTokens: OneTimeTokens,
    private readonly propagation: Propagation,
  ) {}

  @Post()
  @RequireAdmin('users', {
    summary: 'Create a user',
    description:
      'Works while registration is closed, too. Without a password the user is invited to choose one: by mail, or, where ' +
      'the service sends none, by the `invitation` of the response, which the operator hands over. The user sends its ' +
      'token to POST /api/v0/auth/password-reset/confirm within 7 days.',
    refusals: [problems.emailTaken, problems.hashingBusy],
    creates: CreatedUserResponse,
  })
  async createUser(@Req() request: Request, @Body() body: CreateUserRequest): Promise<CreatedUserResponse> {
    const { user, invitation } = await this.registration.registerUserByOperator(body, toActor(request));
    request.res?.location(`/api/v0/admin/users/${user.id}`);
    const response = AdminUserResponse.from(user);
    return invitation ? { ...response, invitation: PasswordResetResponse.from(invitation) } : response;
  }

  @Get()
  @RequireAdmin('users', { summary: 'List users', returns: UserPageResponse })
  async listUsers(@Query() query: UsersQuery): Promise<UserPageResponse> {
    return UserPageResponse.from(await this.users.listUsers(toPageRequest(query, ORDERS), toUserFilter(query)));
  }

  @Post('search')
  @RequireAdmin('users', {
    summary: 'Search users by e-mail address',
    description: 'Lists users as GET does, and also by the address or a part of it. It changes nothing.',
    returns: UserPageResponse,
    isRead: true,
  })
  async searchUsers(@Body() search: UserSearchRequest): Promise<UserPageResponse> {
    return UserPageResponse.from(await this.users.listUsers(toPageRequest(search, ORDERS), toUserFilter(search)));
  }

  @Get(':id')
  @RequireAdmin('users', { summary: 'Get a user', refusals: [problems.notFound], returns: AdminUserResponse })
  async getUserAsAdmin(@Param('id') id: string): Promise<AdminUserResponse> {
    return AdminUserResponse.from(await this.users.findUser(id));
  }

  @Patch(':id')
  @RequireAdmin('users', {
    summary: 'Disable or enable a user, or set or verify the address',
    description:
      'Disabling ends all sessions of the user. So does another address: it is the one to log in with from now on, every link ' +
      'that was sent before is void, and both addresses are told by mail.',
    refusals: [problems.notFound, problems.emailTaken],
    returns: AdminUserResponse,
  })
  async updateUser(@Req() request: Request, @Param('id') id: string, @Body() body: UpdateUserRequest) {
    return AdminUserResponse.from(await this.changes.updateUser(id, toUserChange(body), toActor(request)));
  }

  @Delete(':id')
  @RequireAdmin('users', {
    summary: 'Delete a user',
    description: 'Also deletes all of their sessions. It cannot be undone.',
    refusals: [problems.notFound],
  })
  async deleteUser(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.changes.deleteUser(id, toActor(request));
  }

  @Get(':id/sessions')
  @RequireAdmin('users', {
    summary: 'List the sessions of a user',
    description: 'Includes ended sessions until they are purged.',
    refusals: [problems.notFound],
    returns: SessionPageResponse,
  })
  async listUserSessions(@Param('id') id: string, @Query() query: UserSessionsQuery): Promise<SessionPageResponse> {
    const { id: userId } = await this.users.findUser(id);
    const page = toPageRequest(query);
    const listed = query.live ? this.sessions.listLiveSessions(userId, page) : this.sessions.listSessions(userId, page);
    return SessionPageResponse.from(await listed);
  }

  @Delete(':id/sessions')
  @RequireAdmin('users', { summary: 'End all sessions of a user', refusals: [problems.notFound] })
  async endUserSessions(@Req() request: Request, @Param('id') id: string): Promise<void> {
    // A 404 waits too, because another request may have just deleted the user.
    await this.propagation.propagateAfter(async () => {
      const { id: userId } = await this.users.findUser(id);
      await this.sessions.endSessionsByOperator(userId, toActor(request));
    });
  }

  @Delete(':id/factors')
  @RequireAdmin('users', {
    summary: 'Remove all second factors of a user',
    description:
      'For a user who has lost them: the authenticator app, the recovery codes and all passkeys. Ends all of their ' +
      'sessions. The password alone is enough afterwards, so make sure who asks.',
    refusals: [problems.notFound],
  })
  async removeUserFactors(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.factorChanges.removeAllFactors(id, toActor(request));
  }

  @Delete(':id/throttles')
  @RequireAdmin('users', {
    summary: 'Remove the throttles of a user',
    description:
      'For a user whose passwords, codes or requests for mails are refused with 429. The limits of networks stay: another ' +
      'user may have exhausted them.',
    refusals: [problems.notFound],
  })
  async removeUserThrottles(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.users.unlockUser(id, toActor(request));
  }

  @Post(':id/password-reset')
  @RequireAdmin('users', {
    summary: 'Issue a token with which a user resets the password',
    description:
      'For the operator to hand over, also without a mail server. The user sends it to ' +
      'POST /api/v0/auth/password-reset/confirm. It replaces the one that was issued before. ' +
      'A disabled user gets none.',
    refusals: [problems.notFound, problems.userDisabled],
    creates: PasswordResetResponse,
  })
  async issuePasswordReset(@Req() request: Request, @Param('id') id: string): Promise<PasswordResetResponse> {
    return PasswordResetResponse.from(await this.oneTimeTokens.issueTokenForOperator(id, toActor(request)));
  }
}
