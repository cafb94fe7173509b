import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsObject } from 'class-validator';
import { EXAMPLES } from '../common/examples.js';
import { CharactersBetween, LabelField, MOMENT, PasswordField, type Presence } from '../common/fields.js';
import type { Passkey } from './passkeys.service.js';
import type { UserWithFactors } from './second-factors.service.js';
import type { Enrolment } from './totp.service.js';
import { drawQrCode } from './totp.js';

const MAX_CODE_LENGTH = 64;

/**
 * The answer of a browser: what `toJSON()` of a PublicKeyCredential returns.
 * @param presence in the document; an optional field has a rule of its own that says when it is checked
 */
export function PasskeyField(
  description = 'what toJSON() of the PublicKeyCredential returns in the browser (WebAuthn)',
  { optional = false }: Presence = {},
): PropertyDecorator {
  return applyDecorators(
    (optional ? ApiPropertyOptional : ApiProperty)({
      type: 'object',
      additionalProperties: true,
      description,
      example: { id: 'AQIDBA', rawId: 'AQIDBA', type: 'public-key', response: {}, clientExtensionResults: {} },
    }),
    IsObject({ message: 'must be the JSON of a PublicKeyCredential' }),
  );
}

/** @param presence as for {@link PasskeyField} */
export function CodeField(description: string, { optional = false }: Presence = {}): PropertyDecorator {
  const schema = { type: String, minLength: 1, maxLength: MAX_CODE_LENGTH, description, example: '492039' };
  return applyDecorators((optional ? ApiPropertyOptional : ApiProperty)(schema), CharactersBetween(1, MAX_CODE_LENGTH));
}

export class ProofRequest {
  @PasswordField()
  password!: string;
}

export class ProofWithCodeRequest extends ProofRequest {
  @CodeField('a code of the authenticator app, or a recovery code')
  code!: string;
}

export class ConfirmTotpRequest {
  @CodeField('a code of the authenticator app')
  code!: string;
}

export class RegisterPasskeyRequest {
  @LabelField('phone')
  name!: string;

  @PasskeyField()
  passkey!: object;
}

export class RenamePasskeyRequest {
  @LabelField('phone')
  name!: string;
}

export class EnrolmentResponse {
  @ApiProperty({ description: 'base32; shown once', example: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP' })
  secret!: string;

  @ApiProperty({
    description: 'what authenticator apps read',
    example:
      'otpauth://totp/example.org:alice%40example.org?issuer=example.org&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
  })
  otpauth_url!: string;

  @ApiProperty({
    description: 'the same as a QR code, an SVG image',
    example: '<svg xmlns="http://www.w3.org/2000/svg"/>',
  })
  qr_svg!: string;

  static from({ secret, otpauthUrl }: Enrolment): EnrolmentResponse {
    return { secret, otpauth_url: otpauthUrl, qr_svg: drawQrCode(otpauthUrl) };
  }
}

export class TotpResponse {
  @ApiProperty({ description: 'whether logins ask for a code', example: true })
  is_confirmed!: boolean;

  @ApiProperty({ type: 'integer', description: 'unused recovery codes', example: 10 })
  recovery_codes_left!: number;

  static from({ confirmedAt, recoveryCodes }: UserWithFactors): TotpResponse {
    return { is_confirmed: confirmedAt !== null, recovery_codes_left: recoveryCodes };
  }
}

export class RecoveryCodesResponse {
  @ApiProperty({
    type: [String],
    description: 'each works once, instead of a code of the app; shown once',
    example: ['k3vt-q2ma-7xnd-c5re-w6jh-pz4s'],
  })
  recovery_codes!: string[];

  static from(codes: string[]): RecoveryCodesResponse {
    return { recovery_codes: codes };
  }
}

export class PasskeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  id!: string;

  @ApiProperty({ example: 'phone' })
  name!: string;

  @ApiProperty({ description: 'whether the authenticator may copy it to other devices', example: true })
  is_synced!: boolean;

  @ApiProperty(MOMENT)
  created_at!: string;

  @ApiProperty({ ...MOMENT, nullable: true, description: 'the last login with it', example: null })
  last_used_at!: string | null;

  static from({ id, name, isSynced, createdAt, lastUsedAt }: Passkey): PasskeyResponse {
    const last_used_at = lastUsedAt?.toISOString() ?? null;
    return { id, name, is_synced: isSynced, created_at: createdAt.toISOString(), last_used_at };
  }
}

export class PasskeysResponse {
  @ApiProperty({ type: [PasskeyResponse], description: 'oldest first; at most 20' })
  items!: PasskeyResponse[];

  static from(passkeys: Passkey[]): PasskeysResponse {
    return { items: passkeys.map((passkey) => PasskeyResponse.from(passkey)) };
  }
}
