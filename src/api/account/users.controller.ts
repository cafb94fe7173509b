import { Controller, Get, Param, Req } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toActor } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { RequireAdminOr, RequireUser } from '../../foundation/access/route-decorators.js';
import { isId } from '../../foundation/common/ids.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CountedRefusals } from '../../domain/audit/counted-refusals.js';
import { UsersService } from '../../domain/users/users.service.js';
import { UserResponse } from './user.dto.js';

@ApiTags('users')
@Controller('api/v0/users')
export class UsersController {
  constructor(
    private readonly users: UsersService,
    private readonly refusals: CountedRefusals,
  ) {}

  @Get('me')
  @RequireUser({ summary: 'Get the authenticated user', refusals: [problems.notFound], returns: UserResponse })
  async getCurrentUser(@Req() request: Request): Promise<UserResponse> {
    const { userId } = getPrincipal(request, 'user');
    return UserResponse.from(await this.users.findUser(userId));
  }

  @Get(':id')
  @RequireAdminOr('users', ['app', 'user'], {
    summary: 'Get a user by id',
    description: "A user can read only their own account: another user's id is 404.",
    refusals: [problems.notFound],
    returns: UserResponse,
  })
  async getUser(@Param('id') id: string, @Req() request: Request): Promise<UserResponse> {
    const principal = getPrincipal(request, 'admin', 'app', 'user');
    if (principal.door === 'user' && principal.userId !== id.toLowerCase())
      throw this.refuseOtherAccount(request, principal.userId, id);
    return UserResponse.from(await this.users.findUser(id));
  }

  /**
   * Counts it whether or not the other account exists, so that nothing tells (enumeration, ASVS 16.3.2). The count is
   * deferred, because the route has no throttle: calls would wait for each other at one row.
   */
  private refuseOtherAccount(request: Request, userId: string, id: string): ProblemException {
    if (!isId(id)) return new ProblemException(problems.notFound);
    const [event, reason] = ['user.access.refused', 'other_account'] as const;
    this.refusals.deferRefusal({ event, reason, counted: `reader ${userId}`, subject: userId }, toActor(request));
    return new ProblemException(problems.notFound, { refusal: { event, reason, fields: { user_id: userId } } });
  }
}
