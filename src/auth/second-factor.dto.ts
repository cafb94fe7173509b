import { ApiProperty } from '@nestjs/swagger';
import { IsIn, ValidateIf } from 'class-validator';
import { CharactersBetween } from '../common/fields.js';
import { SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../common/names.js';
import { CodeField, PasskeyField } from '../second-factors/factors.dto.js';

const MAX_CHALLENGE_LENGTH = 200;

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

  @CodeField('with the methods totp and recovery_code', { optional: true })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method !== 'passkey' || value !== undefined)
  code?: string;

  @PasskeyField('with the method passkey: what toJSON() of the PublicKeyCredential returns in the browser', {
    optional: true,
  })
  @ValidateIf(({ method }: SecondFactorRequest, value) => method === 'passkey' || value !== undefined)
  passkey?: object;
}

export class PasskeyLoginRequest {
  @PasskeyField()
  passkey!: object;
}
