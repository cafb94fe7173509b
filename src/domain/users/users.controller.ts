import { Controller, Get, Module, Param, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Request } from 'express';
import { getPrincipal } from '../../foundation/access/actor.js';
import { Answers, RequireAdminOr, RequireUser } from '../../foundation/access/require.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { EmailField, ID, MOMENT, NEW_PASSWORD, NewEmailField, PasswordField } from '../../foundation/common/fields.js';
import { MailModule } from '../mail/mail-worker.js';
import { PasswordsModule } from '../passwords/password-verifier.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { TokensModule } from '../tokens/user-door.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { Registration, UserChanges } from './accounts.js';
import { User, UsersService, type Account } from './users.service.js';

export class RegistrationRequest {
  @NewEmailField() email!: string;
  @PasswordField(NEW_PASSWORD) password!: string;
}

export class CredentialsRequest {
  @EmailField() email!: string;
  @PasswordField(NEW_PASSWORD) password!: string;
}

export class UserResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ type: String, format: 'email', example: EXAMPLES.email }) email!: string;
  @ApiProperty({ example: true }) is_active!: boolean;
  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(MOMENT) updated_at!: string;

  static from(user: Account): UserResponse {
    return {
      id: user.id,
      email: user.email,
      is_active: user.isActive,
      created_at: user.createdAt.toISOString(),
      updated_at: user.updatedAt.toISOString(),
    };
  }
}

@ApiTags('users')
@Controller('api/v0/users')
class UsersController {
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

@Module({
  imports: [MailModule, PasswordsModule, TokensModule, TypeOrmModule.forFeature([User])],
  controllers: [UsersController],
  providers: [UsersService, UserChanges, Registration, OneTimeTokens],
  exports: [UsersService, UserChanges, Registration, OneTimeTokens],
})
export class UsersModule {}
