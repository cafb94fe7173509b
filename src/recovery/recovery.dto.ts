import { ApiProperty } from '@nestjs/swagger';
import { EmailField, NewEmailField, CharactersBetween, NEW_PASSWORD, PasswordField } from '../common/fields.js';
import { EXAMPLES } from '../common/examples.js';

const MAX_TOKEN_LENGTH = 128;

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

  @PasswordField(NEW_PASSWORD)
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
  @PasswordField({ description: 'the current password' })
  password!: string;

  @NewEmailField()
  new_email!: string;
}
