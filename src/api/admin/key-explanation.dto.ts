import { ApiProperty } from '@nestjs/swagger';
import { AppScopeField, MOMENT, NULLABLE_TEXT, ServiceNameField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { type Explanation, type Reason, REASON_CODES } from '../../domain/keys/key-lifecycle.js';

/** The OpenAPI example of NULLABLE_MOMENT is null; this one shows a moment. */
export const OPTIONAL_MOMENT = { ...MOMENT, nullable: true } as const;

export class ExplainKeyQuery {
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}

export class ExplainAppQuery extends ExplainKeyQuery {
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
    description:
      'the actor of that request: admin, operator:<name>, or the door of another actor; null when the audit log no longer has it',
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

/** The documentation of a route that explains a key. @param hint what the operator should send */
export function describeExplanation(noun: string, hint: string) {
  return {
    summary: `Why would this ${noun} be refused now?`,
    description:
      `${hint} The doors answer every refusal alike; this tells the operator why. An unknown id gets the reason ` +
      '`unknown`, not a 404.',
    returns: ExplanationResponse,
  };
}
