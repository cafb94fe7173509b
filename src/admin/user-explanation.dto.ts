import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIP, MaxLength } from 'class-validator';
import { EXAMPLES } from '../common/examples.js';
import { IfSent, MOMENT, NULLABLE_MOMENT } from '../common/fields.js';
import { SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../common/names.js';
import { LOGIN_REASON_CODES, type LoginExplanation, type LoginReason } from '../second-factors/login-explanations.js';

/** An IPv6 address with a dotted end. */
const MAX_ADDRESS_LENGTH = 45;
const ADDRESS_DETAIL = 'must be an IPv4 or IPv6 address';

export class ExplainUserQuery {
  @IfSent()
  @MaxLength(MAX_ADDRESS_LENGTH, { message: ADDRESS_DETAIL })
  @IsIP(undefined, { message: ADDRESS_DETAIL })
  @ApiPropertyOptional({
    type: String,
    maxLength: MAX_ADDRESS_LENGTH,
    description: 'of the client that would log in',
    example: EXAMPLES.network,
  })
  address?: string;
}

export class LoginReasonResponse {
  @ApiProperty({ enum: LOGIN_REASON_CODES, example: 'throttled' })
  code!: string;

  @ApiProperty({ description: 'for humans; may be reworded', example: 'Too many wrong passwords for this account.' })
  detail!: string;

  @ApiProperty({ ...MOMENT, nullable: true, description: 'when it ends by itself; null when it does not' })
  until!: string | null;

  static from({ code, detail, until }: LoginReason): LoginReasonResponse {
    return { code, detail, until: until?.toISOString() ?? null };
  }
}

/** Why a login with the right password would be refused now. */
export class UserExplanationResponse {
  @ApiProperty({
    description: 'whether the right password would be accepted, with a second factor when one is asked for',
    example: false,
  })
  accepted_now!: boolean;

  @ApiProperty({
    enum: SECOND_FACTOR_METHODS,
    isArray: true,
    description: 'what a login asks for after the right password; empty when the password is enough',
    example: ['totp', 'recovery_code'],
  })
  methods!: SecondFactorMethod[];

  @ApiProperty({
    enum: SECOND_FACTOR_METHODS,
    isArray: true,
    description: 'the second factors that the user has',
    example: ['totp', 'recovery_code'],
  })
  second_factors!: SecondFactorMethod[];

  @ApiProperty({
    ...NULLABLE_MOMENT,
    description: 'when a link first proved that an address of the account reaches the user',
  })
  email_verified_at!: string | null;

  @ApiProperty({ type: [LoginReasonResponse], description: 'a throttled code may leave another method open' })
  reasons!: LoginReasonResponse[];

  static from(explanation: LoginExplanation): UserExplanationResponse {
    const { isAccepted, emailVerifiedAt, factors, methods, reasons } = explanation;
    return {
      accepted_now: isAccepted,
      methods: [...methods],
      second_factors: [...factors],
      email_verified_at: emailVerifiedAt?.toISOString() ?? null,
      reasons: reasons.map((reason) => LoginReasonResponse.from(reason)),
    };
  }
}
