import { Controller, Get, Param, Req } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiProblems } from '../problems/api-problems.js';
import { getPrincipal } from '../access/principals.js';
import { RequireAdminOr, RequireUser } from '../access/require.js';
import { ProblemException, problems } from '../problems/problems.js';
import { UserResponse } from './user.dto.js';
import { UsersService } from './users.service.js';

@ApiTags('users')
@Controller('api/v0/users')
export class UsersController {
  constructor(private readonly users: UsersService) {}

  @Get('me')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiOperation({ summary: 'Get the authenticated user' })
  @ApiOkResponse({ type: UserResponse })
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
  @ApiOkResponse({ type: UserResponse })
  async getUser(@Param('id') id: string, @Req() request: Request): Promise<UserResponse> {
    const principal = getPrincipal(request, 'admin', 'app', 'user');
    if (principal.door === 'user' && principal.userId !== id.toLowerCase())
      throw new ProblemException(problems.notFound);
    return UserResponse.from(await this.users.findUser(id));
  }
}
