import { ApiProperty } from '@nestjs/swagger';
import { EmailField } from '../common/email.js';
import { EXAMPLES } from '../common/examples.js';
import { CharactersBetween } from '../common/fields.js';

/** The body of registration and login. */
export class CredentialsRequest {
  @EmailField()
  email!: string;

  @ApiProperty({
    format: 'password',
    minLength: 1,
    maxLength: 256,
    description: 'A new password needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
    example: EXAMPLES.password,
  })
  @CharactersBetween(1, 256)
  password!: string;
}
