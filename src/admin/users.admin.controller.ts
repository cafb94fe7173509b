import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import type { EntityManager } from 'typeorm';
import { ApiProblems } from '../problems/api-problems.js';
import { RequireAdmin } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { PageQuery, toPageRequest } from '../http/page.js';
import { Propagation } from '../keys/cache/propagation.js';
import { problems } from '../problems/problems.js';
import { SecondFactorsService } from '../second-factors/second-factors.service.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { UserPageResponse, UserResponse, RegistrationRequest } from '../users/user.dto.js';
import { Registration } from '../users/registration.js';
import { UsersService } from '../users/users.service.js';
import { SessionPageResponse, UpdateUserRequest, UsersQuery } from './user.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/users')
export class UsersAdminController {
  constructor(
    private readonly registration: Registration,
    private readonly users: UsersService,
    private readonly sessions: SessionsService,
    private readonly secondFactors: SecondFactorsService,
    private readonly propagation: Propagation,
  ) {}

  @Post()
  @RequireAdmin('users')
  @ApiProblems(problems.emailTaken, problems.hashingBusy)
  @ApiOperation({ summary: 'Create a user', description: 'Works while registration is closed, too.' })
  @ApiCreatedResponse({ type: UserResponse })
  async createUser(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() { email, password }: RegistrationRequest,
  ): Promise<UserResponse> {
    const user = await this.registration.registerUser({
      email,
      password,
      actor: toActor(request),
      event: 'admin.user.created',
    });
    response.location(`/api/v0/admin/users/${user.id}`);
    return UserResponse.from(user);
  }

  @Get()
  @RequireAdmin('users')
  @ApiOperation({ summary: 'List users' })
  @ApiOkResponse({ type: UserPageResponse })
  async listUsers(@Query() query: UsersQuery): Promise<UserPageResponse> {
    return UserPageResponse.from(await this.users.listUsers(toPageRequest(query), query.email));
  }

  @Get(':id')
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({ summary: 'Get a user' })
  @ApiOkResponse({ type: UserResponse })
  async getUserAsAdmin(@Param('id') id: string): Promise<UserResponse> {
    return UserResponse.from(await this.users.findUser(id));
  }

  @Patch(':id')
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({ summary: 'Disable or enable a user', description: 'Disabling ends all of their sessions.' })
  @ApiOkResponse({ type: UserResponse })
  async updateUser(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { is_active }: UpdateUserRequest,
  ): Promise<UserResponse> {
    // In the transaction that disables the user: no session can start after it.
    const endSessions = (transaction: EntityManager, userId: string): Promise<number> =>
      this.sessions.endAllSessions(transaction, userId, 'disabled');
    return UserResponse.from(
      await this.users.setUserActive({ id, isActive: is_active, actor: toActor(request), endSessions }),
    );
  }

  @Delete(':id')
  @HttpCode(204)
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({ summary: 'Delete a user', description: 'Also deletes all of their sessions. It cannot be undone.' })
  @ApiNoContentResponse()
  async deleteUser(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.users.deleteUser(id, toActor(request));
  }

  @Get(':id/sessions')
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({
    summary: 'List the sessions of a user',
    description: 'Includes ended sessions until they are purged.',
  })
  @ApiOkResponse({ type: SessionPageResponse })
  async listUserSessions(@Param('id') id: string, @Query() query: PageQuery): Promise<SessionPageResponse> {
    const { id: userId } = await this.users.findUser(id);
    return SessionPageResponse.from(await this.sessions.listSessions(userId, toPageRequest(query)));
  }

  @Delete(':id/sessions')
  @HttpCode(204)
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({ summary: 'End all sessions of a user' })
  @ApiNoContentResponse()
  async endUserSessions(@Req() request: Request, @Param('id') id: string): Promise<void> {
    // The 404 of a user who was just deleted waits too.
    await this.propagation.propagateAfter(async () => {
      const { id: userId } = await this.users.findUser(id);
      await this.sessions.endSessionsByOperator(userId, toActor(request));
    });
  }

  @Delete(':id/factors')
  @HttpCode(204)
  @RequireAdmin('users')
  @ApiProblems(problems.notFound)
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({
    summary: 'Remove all second factors of a user',
    description:
      'For a user who has lost them: the authenticator app, the recovery codes and all passkeys. Ends all of their ' +
      'sessions. The password alone is enough afterwards, so make sure who asks.',
  })
  @ApiNoContentResponse()
  async removeUserFactors(@Req() request: Request, @Param('id') id: string): Promise<void> {
    await this.secondFactors.removeAll(id, toActor(request));
  }
}
