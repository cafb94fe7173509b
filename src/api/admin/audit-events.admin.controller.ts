import { Get, Query } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, Matches } from 'class-validator';
import { describeAdmin } from '../../foundation/access/actor.js';
import { DOORS } from '../../foundation/access/principals.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import type { StoredAuditEvent } from '../../domain/audit/audit-events.js';
import { AuditLog, type AuditFilter } from '../../domain/audit/audit-log.js';
import {
  AddressField,
  ID,
  IfSent,
  MOMENT,
  MomentField,
  NULLABLE_TEXT,
  parseMoment,
  UuidField,
} from '../../foundation/common/fields.js';
import { isId, UUID_PATTERN } from '../../foundation/common/ids.js';
import {
  EXAMPLES,
  OPERATOR_NAME_FORMAT,
  SERVICE_NAME_FORMAT,
  toCanonicalOperatorName,
} from '../../foundation/common/names.js';
import {
  AUDIT_EVENT_NAMES,
  AUDIT_EVENT_PATTERNS,
  listMatchingEvents,
} from '../../foundation/common/security-events.js';
import { createPageResponse, getPageLimit, PageQuery } from '../../foundation/http/page.dto.js';

const OPERATOR = /^operator:(.+)$/;
export const ACTOR = {
  pattern: `^(${UUID_PATTERN}|admin|open|cli|service|operator:${OPERATOR_NAME_FORMAT.schema.pattern.slice(1, -1)})$`,
  message: 'must be a UUID, operator:<name>, admin, open, cli or service',
};
/** An identifier (an id, `admin`, an IPv4 address, the name of a service or a finding), `unknown:…`, or an IPv6 network. */
export const SUBJECT = {
  pattern: `^(${SERVICE_NAME_FORMAT.schema.pattern.slice(1, -1)}|unknown:[0-9a-f]{32}|[0-9a-f:]{2,20}::/64)$`,
  message: 'must be a subject as an item shows it',
};

class AuditEventsQuery extends PageQuery {
  @ApiPropertyOptional({
    type: String,
    pattern: ACTOR.pattern,
    maxLength: 'operator:'.length + OPERATOR_NAME_FORMAT.schema.maxLength,
    description:
      'id of a user, app credential, node or operator; operator:<name>; or the door of an actor without an id: admin ' +
      '(the root key), open, cli, service',
    example: 'admin',
  })
  @IfSent()
  @Matches(new RegExp(ACTOR.pattern), ACTOR)
  actor?: string;

  @ApiPropertyOptional({
    type: String,
    pattern: SUBJECT.pattern,
    maxLength: 100,
    description: 'what the event is about, as in an item: mostly an id',
    example: EXAMPLES.id,
  })
  @IfSent()
  @Matches(new RegExp(SUBJECT.pattern), SUBJECT)
  subject?: string;

  @UuidField(
    {
      example: EXAMPLES.id,
      description:
        'of the request, as in X-Request-Id; a counted event is found by its first and its last 20; no index serves it: send since too',
    },
    { optional: true },
  )
  request_id?: string;

  @AddressField(
    'of the client; a counted event has that of its first refusal and the most frequent ones; send since too',
    { optional: true },
  )
  address?: string;

  @ApiPropertyOptional({
    enum: [...AUDIT_EVENT_NAMES, ...AUDIT_EVENT_PATTERNS],
    enumName: 'AuditEventFilter',
    description: 'a name, or the beginning of names and `.*`',
    example: 'admin.node.revoked',
  })
  @IfSent()
  @IsIn([...AUDIT_EVENT_NAMES, ...AUDIT_EVENT_PATTERNS], {
    message: 'must be the name of an audit event, or the beginning of names and .*, as in user.*',
  })
  event?: string;

  @MomentField('only events at or after this moment') since?: string;
  @MomentField('only events before this moment') until?: string;
}

class AuditActorResponse {
  @ApiProperty({
    enum: [...Object.keys(DOORS), 'open', 'cli', 'service'],
    enumName: 'ActorDoor',
    description: 'open: an unauthenticated caller; cli: the command line of an operator; service: this service itself',
    example: 'admin',
  })
  door!: string;

  @ApiProperty({
    ...ID,
    nullable: true,
    description: 'of the user, app credential, node or operator; null for the root key (ADMIN_API_KEY)',
  })
  id!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description: 'operator:<name> when an operator acted; for cli the name that was given, if any; otherwise null',
    example: `operator:${EXAMPLES.operator}`,
  })
  name!: string | null;
}

export class AuditEventResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(MOMENT) time!: string;
  @ApiProperty({ enum: AUDIT_EVENT_NAMES, enumName: 'AuditEventName', example: 'admin.node.revoked' }) event!: string;
  @ApiProperty({ type: AuditActorResponse }) actor!: AuditActorResponse;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description:
      'id of the user, household, node, app credential, operator, enrolment, signing key or run that the event is about; ' +
      'name of a service or a finding; a network; admin: the root key; unknown:… where the account is not known',
    example: EXAMPLES.id,
  })
  subject!: string | null;

  @ApiProperty({ ...NULLABLE_TEXT, description: 'as in the logs', example: EXAMPLES.id }) request_id!: string | null;
  @ApiProperty({ ...NULLABLE_TEXT, example: '192.0.2.7' }) address!: string | null;

  @ApiProperty({
    type: 'integer',
    description: 'how often a counted refusal happened in its window, or how many sessions ended; otherwise 1',
    example: 1,
  })
  count!: number;

  @ApiProperty({
    type: 'object',
    additionalProperties: true,
    description: 'the values before and after, without secrets',
    example: { before: { revoked_at: null }, after: { revoked_at: '2026-11-21T09:00:00.000Z' } },
  })
  details!: Record<string, unknown>;

  static from(row: StoredAuditEvent): AuditEventResponse {
    return {
      id: row.id,
      time: row.time.toISOString(),
      event: row.event,
      actor: { door: row.actor_door, id: row.actor_id, name: toActorName(row) },
      subject: row.subject,
      request_id: row.request_id,
      address: row.address,
      count: row.count,
      details: row.details,
    };
  }
}

type AuditQuery = Readonly<Partial<Record<Exclude<keyof AuditEventsQuery, keyof PageQuery>, string | undefined>>>;

/** @param query of the route, or of an export that reads the database */
export function toAuditFilter({ actor, subject, request_id, address, event, since, until }: AuditQuery): AuditFilter {
  const operator = OPERATOR.exec(actor ?? '')?.[1];
  return {
    actor: operator === undefined ? actor?.toLowerCase() : undefined,
    operator: operator && toCanonicalOperatorName(operator),
    subject: subject !== undefined && isId(subject) ? subject.toLowerCase() : subject,
    requestId: request_id?.toLowerCase(),
    address,
    events: event === undefined ? undefined : listMatchingEvents(event),
    since: parseMoment(since),
    until: parseMoment(until),
  };
}

function toActorName({ actor_door, actor_id, details }: StoredAuditEvent): string | null {
  if (actor_door === 'cli' && typeof details.operator === 'string') return details.operator;
  if (actor_door !== 'admin' || actor_id === null || typeof details.operator !== 'string') return null;
  return describeAdmin(details.operator);
}

class AuditEventPageResponse extends createPageResponse(AuditEventResponse) {}

@AdminController('/audit-events')
export class AuditEventsAdminController {
  constructor(private readonly audit: AuditLog) {}

  @Get()
  @RequireAdmin('read', {
    summary: 'List audit events',
    description:
      'Newest first. Refusals are one item for each account, network or credential and window of 15 minutes, with a count.',
    returns: AuditEventPageResponse,
  })
  async listAuditEvents(@Query() query: AuditEventsQuery): Promise<AuditEventPageResponse> {
    const page = await this.audit.listEvents(toAuditFilter(query), getPageLimit(query), query.cursor);
    return AuditEventPageResponse.from(page);
  }
}
