import { ApiProperty } from '@nestjs/swagger';
import { EmailField } from '../common/email.js';
import { EXAMPLES } from '../common/examples.js';
import { CharactersBetween } from '../common/fields.js';

const MAX_TOKEN_LENGTH = 128;
const MAX_PASSWORD_LENGTH = 256;
const PASSWORD = { format: 'password', minLength: 1, maxLength: MAX_PASSWORD_LENGTH } as const;

/** The body of a request for a link. */
export class LinkRequest {
  @EmailField()
  email!: string;
}

export class ConfirmPasswordResetRequest {
  @ApiProperty({
    minLength: 1,
    maxLength: MAX_TOKEN_LENGTH,
    description: 'the token of the link, or the one that an operator handed over',
    example: EXAMPLES.resetToken,
  })
  @CharactersBetween(1, MAX_TOKEN_LENGTH)
  token!: string;

  @ApiProperty({
    ...PASSWORD,
    description: 'A new password needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
    example: EXAMPLES.password,
  })
  @CharactersBetween(1, MAX_PASSWORD_LENGTH)
  new_password!: string;
}

export class ConfirmEmailRequest {
  @ApiProperty({
    minLength: 1,
    maxLength: MAX_TOKEN_LENGTH,
    description: 'the token of the link',
    example: EXAMPLES.emailToken,
  })
  @CharactersBetween(1, MAX_TOKEN_LENGTH)
  token!: string;
}

export class ChangeEmailRequest {
  @ApiProperty({ ...PASSWORD, description: 'the current password', example: EXAMPLES.password })
  @CharactersBetween(1, MAX_PASSWORD_LENGTH)
  password!: string;

  @EmailField()
  new_email!: string;
}
