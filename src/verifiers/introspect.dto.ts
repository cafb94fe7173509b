import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { MAX_TEXT_LENGTH } from '../http/json-body.js';

/** For the OpenAPI document only: the form is parsed after authentication. */
export class IntrospectionBody {
  @ApiProperty({
    type: String,
    maxLength: MAX_TEXT_LENGTH,
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl',
  })
  token!: string;

  @ApiPropertyOptional({ type: String, description: 'ignored', maxLength: MAX_TEXT_LENGTH, example: 'access_token' })
  token_type_hint?: string;
}

export class ActiveTokenResponse {
  @ApiProperty({ example: true })
  active!: boolean;

  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the user', example: EXAMPLES.id })
  sub!: string;

  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the session', example: EXAMPLES.id })
  sid!: string;

  @ApiPropertyOptional({ type: 'integer', example: 1_763_769_600 })
  exp!: number;

  @ApiPropertyOptional({ type: 'integer', example: 1_763_768_700 })
  iat!: number;

  @ApiPropertyOptional({ type: String, example: 'platform-auth' })
  iss!: string;

  @ApiPropertyOptional({ type: String, format: 'uuid', example: EXAMPLES.id })
  jti!: string;

  @ApiPropertyOptional({ enum: ['Bearer'] })
  token_type!: 'Bearer';

  @ApiPropertyOptional({ type: String, description: 'the e-mail address', example: EXAMPLES.email })
  username!: string;

  @ApiPropertyOptional({
    type: [String],
    description: 'how the user authenticated at the login (RFC 8176)',
    example: ['pwd', 'otp', 'mfa'],
  })
  amr!: string[];
}
