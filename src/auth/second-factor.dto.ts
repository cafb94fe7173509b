import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsObject, ValidateIf } from 'class-validator';
import { CharactersBetween } from '../common/fields.js';
import { SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../common/second-factor-methods.js';
import { PasskeyField } from '../second-factors/factors.dto.js';

const MAX_CHALLENGE_LENGTH = 200;
const MAX_CODE_LENGTH = 64;

export class SecondFactorRequest {
  @ApiProperty({
    minLength: 1,
    maxLength: MAX_CHALLENGE_LENGTH,
    description: 'of the second_factor_required',
    example: 'AQGT…',
  })
  @CharactersBetween(1, MAX_CHALLENGE_LENGTH)
  challenge!: string;

  @ApiProperty({ enum: SECOND_FACTOR_METHODS, example: 'totp' })
  @IsIn(SECOND_FACTOR_METHODS, { message: `must be one of ${SECOND_FACTOR_METHODS.join(', ')}` })
  method!: SecondFactorMethod;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: MAX_CODE_LENGTH,
    description: 'with the methods totp and recovery_code',
    example: '492039',
  })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method !== 'passkey' || value !== undefined)
  @CharactersBetween(1, MAX_CODE_LENGTH)
  code?: string;

  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: true,
    description: 'with the method passkey: what toJSON() of the PublicKeyCredential returns in the browser',
    example: { id: 'AQIDBA', rawId: 'AQIDBA', type: 'public-key', response: {}, clientExtensionResults: {} },
  })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method === 'passkey' || value !== undefined)
  @IsObject({ message: 'must be the JSON of a PublicKeyCredential' })
  passkey?: object;
}

export class PasskeyLoginRequest {
  @PasskeyField()
  passkey!: object;
}
