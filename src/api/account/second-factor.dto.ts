import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { applyDecorators } from '@nestjs/common';
import { PasskeyField } from '../../domain/webauthn/relying-party.js';
import { IfSent, PasswordField, CharactersBetween, TextField, type Presence } from '../../foundation/common/fields.js';

const MAX_CODE_LENGTH = 64;

const MAX_CHALLENGE_LENGTH = 200;

/** Documents the {@link PasswordField} of a call that asks for the password again. */
export const CURRENT_PASSWORD = { description: 'The password of the account. A wrong one counts like a failed login.' };

export function ChallengeField(description: string): PropertyDecorator {
  return TextField(MAX_CHALLENGE_LENGTH, { description, example: 'AQGT…' });
}

/** A request that sets `optional` declares with `@ValidateIf` when the code is required. */
export function CodeField(description: string, { optional = false }: Presence = {}): PropertyDecorator {
  const schema = { type: String, minLength: 1, maxLength: MAX_CODE_LENGTH, description, example: '492039' };
  return applyDecorators((optional ? ApiPropertyOptional : ApiProperty)(schema), CharactersBetween(1, MAX_CODE_LENGTH));
}

/** Beside the password, what an account with a second factor is asked for (fresh_second_factor_required). */
export class FreshFactorFields {
  @CodeField('of an account with a second factor: a code of the authenticator app, or a recovery code', {
    optional: true,
  })
  @IfSent()
  code?: string;

  @PasskeyField('in place of the code: the answer of the browser to the passkey_options', { optional: true })
  @IfSent()
  passkey?: object;
}

export class ProofRequest extends FreshFactorFields {
  @PasswordField() password!: string;
}
