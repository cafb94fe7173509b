import { Get, Param, Query } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { AdminController, RequireAdmin } from '../../foundation/access/require.js';
import { AppCredentialsService } from '../../domain/app-credentials/app-credentials.service.js';
import {
  AddressField,
  AppScopeField,
  MOMENT,
  NETWORK,
  NULLABLE_MOMENT,
  NULLABLE_TEXT,
  ServiceNameField,
} from '../../foundation/common/fields.js';
import { EXAMPLES, SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../../foundation/common/names.js';
import { toNetwork } from '../../foundation/common/network.js';
import { type Explanation, type Reason, REASON_CODES } from '../../domain/keys/key-lifecycle.js';
import { NodesService } from '../../domain/nodes/nodes.service.js';
import {
  LOGIN_REASON_CODES,
  type LoginExplanation,
  LoginExplanations,
  type LoginReason,
} from '../../domain/second-factors/second-factors.service.js';
import { Throttle } from '../../foundation/throttling/throttle.js';

const METHODS = {
  enum: SECOND_FACTOR_METHODS,
  enumName: 'SecondFactorMethod',
  isArray: true,
  example: ['totp', 'recovery_code'],
};
/** The OpenAPI example of NULLABLE_MOMENT is null; this one shows a moment. */
const OPTIONAL_MOMENT = { ...MOMENT, nullable: true } as const;

class ExplainNodeQuery {
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}

class ExplainAppQuery extends ExplainNodeQuery {
  @AppScopeField() scope?: string;
}

export class ReasonResponse {
  @ApiProperty({ enum: REASON_CODES, enumName: 'KeyReasonCode' }) code!: string;

  @ApiProperty({
    description: 'for humans; may be reworded',
    example: 'It was revoked, which cannot be undone. Issue a new one.',
  })
  detail!: string;

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'since when; null when it has no beginning or is not known' })
  since!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description: 'the request that revoked or rotated, as in X-Request-Id and in the log',
    example: EXAMPLES.id,
  })
  request_id!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description: 'the actor of that request: admin, operator:<name> or cli; null when the audit log no longer has it',
    example: `operator:${EXAMPLES.operator}`,
  })
  actor!: string | null;

  static from(reason: Reason): ReasonResponse {
    const { code, detail, since, requestId, actor = null } = reason;
    return { code, detail, since: since?.toISOString() ?? null, request_id: requestId, actor };
  }
}

export class ExplanationResponse {
  @ApiProperty({ description: 'whether the current key would be accepted', example: false }) accepted_now!: boolean;

  @ApiProperty({
    type: [ReasonResponse],
    description: 'why the current key would be refused; empty when it would be accepted',
  })
  reasons!: ReasonResponse[];

  @ApiProperty({
    ...OPTIONAL_MOMENT,
    description: 'the end of the overlap, in which the key before the last rotation is valid too',
  })
  previous_key_accepted_until!: string | null;

  @ApiProperty({
    type: [ReasonResponse],
    description:
      'why the key before the last rotation would be refused; empty when it would be accepted, or does not exist',
  })
  previous_key_reasons!: ReasonResponse[];

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'written by each replica with a delay of up to half a minute' })
  last_accepted_at!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description:
      'the service for which it was last accepted: the forwarding app, or the named target; null when neither was sent',
    example: EXAMPLES.caller,
  })
  last_accepted_for!: string | null;

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'when the current key was last accepted' })
  current_key_last_accepted_at!: string | null;

  @ApiProperty({
    ...OPTIONAL_MOMENT,
    description:
      'when the key before the last rotation was last accepted, also before that rotation; null: never, or no such key',
  })
  previous_key_last_accepted_at!: string | null;

  @ApiProperty({ ...NULLABLE_TEXT, description: 'the service for which it was', example: EXAMPLES.caller })
  previous_key_last_accepted_for!: string | null;

  static from(explanation: Explanation): ExplanationResponse {
    const { reasons, previousKey, lastUses } = explanation;
    const { latest, current, previous } = lastUses;
    return {
      accepted_now: reasons.length === 0,
      reasons: reasons.map((reason) => ReasonResponse.from(reason)),
      previous_key_accepted_until: previousKey?.acceptedUntil?.toISOString() ?? null,
      previous_key_reasons: (previousKey?.reasons ?? []).map((reason) => ReasonResponse.from(reason)),
      last_accepted_at: latest?.at.toISOString() ?? null,
      last_accepted_for: latest?.service ?? null,
      current_key_last_accepted_at: current?.at.toISOString() ?? null,
      previous_key_last_accepted_at: previous?.at.toISOString() ?? null,
      previous_key_last_accepted_for: previous?.service ?? null,
    };
  }
}

class ExplainUserQuery {
  @AddressField('of the client that would log in', { optional: true }) address?: string;
}

export class LoginReasonResponse {
  @ApiProperty({ enum: LOGIN_REASON_CODES, enumName: 'LoginReasonCode', example: 'throttled' }) code!: string;

  @ApiProperty({ description: 'for humans; may be reworded', example: 'Too many wrong passwords for this account.' })
  detail!: string;

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'when it ends by itself; null when it does not' })
  until!: string | null;

  static from({ code, detail, until }: LoginReason): LoginReasonResponse {
    return { code, detail, until: until?.toISOString() ?? null };
  }
}

export class UserExplanationResponse {
  @ApiProperty({
    description: 'whether the right password would be accepted, with a second factor when one is asked for',
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

export class ExplainNetworkQuery {
  @AddressField('of a client') address!: string;
}

export class ExhaustedLimitResponse {
  @ApiProperty({ description: 'as in the header RateLimit and in the log', example: 'login-address' }) name!: string;
  @ApiProperty({ ...MOMENT, description: 'when it ends by itself' }) until!: string;
}

export class NetworkExplanationResponse {
  @ApiProperty({ ...NETWORK, nullable: false, description: 'what the limits count: an IPv4 address, or an IPv6 /64' })
  network!: string;

  @ApiProperty({ type: [ExhaustedLimitResponse], description: 'the limits that refuse the network now' })
  limits!: ExhaustedLimitResponse[];
}

const DESCRIPTION =
  'The doors answer every refusal alike; this tells the operator why. An unknown id gets the reason `unknown`, not a 404.';

@AdminController()
export class ExplanationsAdminController {
  constructor(
    private readonly nodes: NodesService,
    private readonly credentials: AppCredentialsService,
    private readonly logins: LoginExplanations,
    private readonly throttle: Throttle,
  ) {}

  @Get('users/:id/explain')
  @RequireAdmin('users', {
    summary: 'Why would a login of this user be refused now?',
    description:
      'With the right password. Name the address of the client to include the throttles of its network. Counts nothing. An unknown id gets the reason `unknown`, not a 404.',
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

  @Get('nodes/:node_id/explain')
  @RequireAdmin('nodes', {
    summary: 'Why would this node be refused now?',
    description: `Name the service that refused it as target. ${DESCRIPTION}`,
    returns: ExplanationResponse,
  })
  async explainNode(@Param('node_id') id: string, @Query() asked: ExplainNodeQuery): Promise<ExplanationResponse> {
    return ExplanationResponse.from(await this.nodes.keys.explainCredential(id, asked));
  }

  @Get('app-credentials/:app_id/explain')
  @RequireAdmin('apps', {
    summary: 'Why would this app credential be refused now?',
    description: `Name the service that refused it as target, and the scope that it asked for. ${DESCRIPTION}`,
    returns: ExplanationResponse,
  })
  async explainAppCredential(@Param('app_id') id: string, @Query() asked: ExplainAppQuery) {
    return ExplanationResponse.from(await this.credentials.keys.explainCredential(id, asked));
  }
}
