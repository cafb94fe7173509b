import { Get, Param, Query } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { AddressField, MOMENT, NETWORK, NULLABLE_MOMENT, NULLABLE_TEXT } from '../../foundation/common/fields.js';
import { SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../../foundation/common/names.js';
import { toNetwork } from '../../foundation/common/network.js';
import {
  LOGIN_REASON_CODES,
  type LoginExplanation,
  LoginExplanations,
  type LoginReason,
} from '../../domain/second-factors/login-explanations.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { OPTIONAL_MOMENT } from './key-explanation.dto.js';

const METHODS = {
  enum: SECOND_FACTOR_METHODS,
  enumName: 'SecondFactorMethod',
  isArray: true,
  example: ['totp', 'recovery_code'],
};

class ExplainUserQuery {
  @AddressField('of the client that would log in; absent: each one from which wrong passwords or codes came lately', {
    optional: true,
  })
  address?: string;
}

export class LoginReasonResponse {
  @ApiProperty({ enum: LOGIN_REASON_CODES, enumName: 'LoginReasonCode', example: 'throttled' }) code!: string;

  @ApiProperty({ description: 'for humans; may be reworded', example: 'Too many wrong passwords for this account.' })
  detail!: string;

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'when it ends by itself; null when it does not' })
  until!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description: 'only clients at this address are refused; null: clients at any address',
    example: '192.0.2.7',
  })
  address!: string | null;

  static from({ code, detail, until, address }: LoginReason): LoginReasonResponse {
    return { code, detail, until: until?.toISOString() ?? null, address };
  }
}

export class UserExplanationResponse {
  @ApiProperty({
    description:
      'whether the right password would be accepted, with a second factor when one is asked for, at the named address; ' +
      'without one, at every address that was tried lately',
    example: false,
  })
  accepted_now!: boolean;

  @ApiProperty({
    ...METHODS,
    description: 'what a login asks for after the right password; empty when the password is enough',
  })
  methods!: SecondFactorMethod[];

  @ApiProperty({ ...METHODS, description: 'the second factors that the user has' })
  second_factors!: SecondFactorMethod[];

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'when a link proved that the address reaches the user' })
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

class ExplainNetworkQuery {
  @AddressField('of a client') address!: string;
}

class ExhaustedLimitResponse {
  @ApiProperty({ description: 'as in the header RateLimit and in the log', example: 'login-address' }) name!: string;
  @ApiProperty({ ...MOMENT, description: 'when it ends by itself' }) until!: string;
}

class NetworkExplanationResponse {
  @ApiProperty({ ...NETWORK, nullable: false, description: 'what the limits count: an IPv4 address, or an IPv6 /64' })
  network!: string;

  @ApiProperty({ type: [ExhaustedLimitResponse], description: 'the limits that refuse the network now' })
  limits!: ExhaustedLimitResponse[];
}

@AdminController()
export class ExplanationsAdminController {
  constructor(
    private readonly logins: LoginExplanations,
    private readonly throttle: Throttle,
  ) {}

  @Get('users/:id/explain')
  @RequireAdmin('users', {
    summary: 'Why would a login of this user be refused now?',
    description:
      'With the right password. Without the address of the client, each throttle at the addresses of wrong passwords and codes is ' +
      'listed. Counts nothing. An unknown id gets the reason `unknown`, not a 404.',
    returns: UserExplanationResponse,
  })
  async explainUser(@Param('id') id: string, @Query() { address }: ExplainUserQuery): Promise<UserExplanationResponse> {
    return UserExplanationResponse.from(await this.logins.explainLogin(id, address ?? null));
  }

  @Get('networks/explain')
  @RequireAdmin('users', {
    summary: 'Which limits refuse a network now?',
    description: 'Those that count calls and wrong guesses by network, of all replicas. Counts nothing.',
    returns: NetworkExplanationResponse,
  })
  async explainNetwork(@Query() { address }: ExplainNetworkQuery): Promise<NetworkExplanationResponse> {
    const exhausted = await this.throttle.listExhaustedLimits(address);
    const limits = exhausted.map(({ name, until }) => ({ name, until: until.toISOString() }));
    return { network: toNetwork(address), limits };
  }
}
