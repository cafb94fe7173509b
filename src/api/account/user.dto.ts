import { ApiProperty } from '@nestjs/swagger';
import type { Account } from '../../domain/users/users.service.js';
import { NewEmailField, PasswordField, NEW_PASSWORD, EmailField, ID, MOMENT } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';

export class RegistrationRequest {
  @NewEmailField() email!: string;
  @PasswordField(NEW_PASSWORD) password!: string;
}

export class CredentialsRequest {
  @EmailField() email!: string;
  @PasswordField() password!: string;
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
