import { ApiProperty } from '@nestjs/swagger';
import type { Account } from '../../domain/users/users.service.js';
import {
  EMAIL,
  EmailField,
  ID,
  IfSent,
  MOMENT,
  NEW_PASSWORD,
  NewEmailField,
  PasswordField,
} from '../../foundation/common/fields.js';

export class RegistrationRequest {
  @NewEmailField() email!: string;

  /** Documented as required, as it is by default (`Registration` refuses its absence). */
  @IfSent()
  @PasswordField({
    description: `${NEW_PASSWORD.description} With REGISTRATION_ANSWER=uniform it may be left out, and is not kept.`,
  })
  password?: string;
}

export class CredentialsRequest {
  @EmailField() email!: string;
  @PasswordField() password!: string;
}

export class UserResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(EMAIL) email!: string;
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
