import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { MOMENT, ServiceNameField } from '../common/fields.js';
import { REASON_CODES, type Explanation, type Reason } from '../keys/key-ends.js';

/** Unlike that of other responses, its example is a moment. */
const OPTIONAL_MOMENT = { ...MOMENT, nullable: true } as const;

export class ExplainAppQuery {
  @ServiceNameField(EXAMPLES.target, { optional: true })
  target?: string;
}

export class ReasonResponse {
  @ApiProperty({ enum: REASON_CODES })
  code!: string;

  @ApiProperty({
    description: 'for humans; may be reworded',
    example: 'It was revoked, which cannot be undone. Issue a new one.',
  })
  detail!: string;

  @ApiProperty({ ...OPTIONAL_MOMENT, description: 'since when; null when it has no beginning or is not known' })
  since!: string | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'the request that revoked or rotated, as in X-Request-Id and in the log',
    example: EXAMPLES.id,
  })
  request_id!: string | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'the actor of that request: admin, operator:<name> or cli; null when the audit log no longer has it',
    example: `operator:${EXAMPLES.operator}`,
  })
  actor!: string | null;

  static from(reason: Reason): ReasonResponse {
    const { code, detail, since, requestId, actor = null } = reason;
    return { code, detail, since: since?.toISOString() ?? null, request_id: requestId, actor };
  }
}

/** Why a credential would be refused now. */
export class ExplanationResponse {
  @ApiProperty({ description: 'whether the current key would be accepted', example: false })
  accepted_now!: boolean;

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
    type: String,
    nullable: true,
    description:
      'the service for which it was last accepted: the forwarding app, or the named target; null when neither was sent',
    example: EXAMPLES.caller,
  })
  last_accepted_for!: string | null;

  static from(explanation: Explanation): ExplanationResponse {
    const { reasons, previousKey, lastAcceptedAt, lastAcceptedFor } = explanation;
    return {
      accepted_now: reasons.length === 0,
      reasons: reasons.map((reason) => ReasonResponse.from(reason)),
      previous_key_accepted_until: previousKey?.acceptedUntil?.toISOString() ?? null,
      previous_key_reasons: (previousKey?.reasons ?? []).map((reason) => ReasonResponse.from(reason)),
      last_accepted_at: lastAcceptedAt?.toISOString() ?? null,
      last_accepted_for: lastAcceptedFor,
    };
  }
}
