import { Controller, Get, Param, Req } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal } from '../../foundation/access/principals.js';
import { Answers, RequireAdminOr, RequireUser } from '../../foundation/access/require.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { UsersService } from '../../domain/users/users.service.js';
import { UserResponse } from './user.dto.js';

@ApiTags('users')
@Controller('api/v0/users')
export class UsersController {
  constructor(private readonly users: UsersService) {}

  @Get('me')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiOperation({ summary: 'Get the authenticated user' })
  @Answers(200, UserResponse)
  async getCurrentUser(@Req() request: Request): Promise<UserResponse> {
    const { userId } = getPrincipal(request, 'user');
    return UserResponse.from(await this.users.findUser(userId));
  }

  @Get(':id')
  @RequireAdminOr('users', 'app', 'user')
  @ApiProblems(problems.notFound)
  @ApiOperation({
    summary: 'Get a user by id',
    description: "A user can read only their own account: another user's id is 404.",
  })
  @Answers(200, UserResponse)
  async getUser(@Param('id') id: string, @Req() request: Request): Promise<UserResponse> {
    const principal = getPrincipal(request, 'admin', 'app', 'user');
    if (principal.door === 'user' && principal.userId !== id.toLowerCase())
      throw new ProblemException(problems.notFound);
    return UserResponse.from(await this.users.findUser(id));
  }
}
