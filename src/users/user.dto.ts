import { ApiProperty } from '@nestjs/swagger';
import { EmailField, NewEmailField, MOMENT, NEW_PASSWORD, PasswordField } from '../common/fields.js';
import { EXAMPLES } from '../common/examples.js';
import { createPageResponse } from '../http/page.js';
import type { Account, User } from './users.service.js';

export class RegistrationRequest {
  @NewEmailField()
  email!: string;

  @PasswordField(NEW_PASSWORD)
  password!: string;
}

export class CredentialsRequest {
  @EmailField()
  email!: string;

  @PasswordField(NEW_PASSWORD)
  password!: string;
}

export class UserResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  id!: string;

  @ApiProperty({ type: String, format: 'email', example: EXAMPLES.email })
  email!: string;

  @ApiProperty({ example: true })
  is_active!: boolean;

  @ApiProperty(MOMENT)
  created_at!: string;

  @ApiProperty(MOMENT)
  updated_at!: string;

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

export class UserPageResponse extends createPageResponse<User, UserResponse>(UserResponse) {}
