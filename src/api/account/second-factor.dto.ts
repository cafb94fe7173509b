import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { applyDecorators } from '@nestjs/common';
import { PasswordField, CharactersBetween, type Presence } from '../../foundation/common/fields.js';

export class ProofRequest {
  @PasswordField() password!: string;
}

const MAX_CODE_LENGTH = 64;

/** A request that sets `optional` declares with `@ValidateIf` when the code is required. */
export function CodeField(description: string, { optional = false }: Presence = {}): PropertyDecorator {
  const schema = { type: String, minLength: 1, maxLength: MAX_CODE_LENGTH, description, example: '492039' };
  return applyDecorators((optional ? ApiPropertyOptional : ApiProperty)(schema), CharactersBetween(1, MAX_CODE_LENGTH));
}

export class ProofWithCodeRequest extends ProofRequest {
  @CodeField('a code of the authenticator app, or a recovery code') code!: string;
}
