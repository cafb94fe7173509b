import { Body, Post, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { MaxLength } from 'class-validator';
import type { Request } from 'express';
import { MAX_EVENT_CURSOR_LENGTH } from '../../domain/events/event-cursor.js';
import { EventFeed, MAX_EVENTS, type Batch, type ReadEvent } from '../../domain/events/event-feed.js';
import {
  EVENT_TYPES,
  formatEventId,
  SUBJECT_KINDS,
  toSubjectKind,
  type EventType,
  type SubjectKind,
} from '../../domain/events/event-types.js';
import { toActor } from '../../foundation/access/actor.js';
import { Doors } from '../../foundation/access/doors.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireApp } from '../../foundation/access/route-decorators.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { IfSent, LabelField, MOMENT, WholeNumberField } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { problems } from '../../foundation/problems/problems.js';

const DEFAULT_LIMIT = 100;
const MAX_WAIT_SECONDS = 20;
const CURSOR = '7.3.0.9f86d081884c7d659a2feaa0c55ad015.7391402938271-00000001-0';

class ReadEventsRequest {
  @ApiPropertyOptional({
    type: String,
    maxLength: MAX_EVENT_CURSOR_LENGTH,
    description: 'acknowledges all events up to this cursor; absent: read on at the stored position',
    example: CURSOR,
  })
  @IfSent()
  @MaxLength(MAX_EVENT_CURSOR_LENGTH, { message: 'must be the cursor of an earlier answer' })
  after?: string;

  @LabelField(
    'b7f3c1d2-recipes-1',
    {},
    'random, one for each process that reads: it holds the subscription until 30 s after its last poll',
  )
  consumer!: string;

  @WholeNumberField(1, MAX_EVENTS, `default ${DEFAULT_LIMIT}`, DEFAULT_LIMIT)
  limit: number = DEFAULT_LIMIT;

  @WholeNumberField(0, MAX_WAIT_SECONDS, 'how long to wait for events when there are none; default 0', 0)
  wait_seconds: number = 0;
}

class EventSubjectResponse {
  @ApiProperty({ enum: SUBJECT_KINDS, enumName: 'EventSubjectKind' }) kind!: SubjectKind;
  @ApiProperty({ example: EXAMPLES.id }) id!: string;
}

class EventResponse {
  @ApiProperty({ description: 'stable: the same event has the same id', example: `${EXAMPLES.id}:user.deleted` })
  id!: string;

  @ApiProperty({ enum: EVENT_TYPES, enumName: 'EventType' }) type!: EventType;
  @ApiProperty(MOMENT) time!: string;
  @ApiProperty({ type: EventSubjectResponse }) subject!: EventSubjectResponse;

  @ApiProperty({ type: 'object', additionalProperties: true, description: 'ids, names and reasons', example: {} })
  data!: Readonly<Record<string, unknown>>;

  @ApiProperty({ maxLength: MAX_EVENT_CURSOR_LENGTH, example: CURSOR }) cursor!: string;

  static from({ id, type, time, subject, data, cursor }: ReadEvent): EventResponse {
    const moment = new Date(time).toISOString();
    return {
      id: formatEventId(id, type),
      type,
      time: moment,
      subject: { kind: toSubjectKind(type), id: subject },
      data,
      cursor,
    };
  }
}

class EventsResponse {
  @ApiProperty({ type: [EventResponse], maxItems: MAX_EVENTS }) events!: EventResponse[];
  @ApiProperty({ description: 'there are more events: ask again at once', example: false }) more!: boolean;

  @ApiProperty({
    description: 'what happened since the position is unknown: take `cursor`, then compare what the service knows',
    example: false,
  })
  reset!: boolean;

  @ApiPropertyOptional({
    type: String,
    maxLength: MAX_EVENT_CURSOR_LENGTH,
    description: 'with `reset`',
    example: CURSOR,
  })
  cursor?: string;

  static from({ events, hasMore, resetCursor }: Batch): EventsResponse {
    return {
      events: events.map((event) => EventResponse.from(event)),
      more: hasMore,
      reset: resetCursor !== undefined,
      ...(resetCursor !== undefined && { cursor: resetCursor }),
    };
  }
}

@InternalController()
export class EventsController {
  constructor(
    private readonly feed: EventFeed,
    private readonly doors: Doors,
  ) {}

  @Post('events')
  @RequireApp({
    summary: 'Read what happened',
    description:
      'The events of the types that the service subscribes to: each at least once, in the order of the seals. Only `after` moves ' +
      'the stored position. **Events revoke nothing**, the lease of a verifier does: an event is a reason to look.',
    refusals: [problems.notSubscribed, problems.eventsBusy],
    returns: EventsResponse,
  })
  // Not logged, because a service that waits polls all the time.
  @Declares({ logged: 'failures' })
  async readEvents(@Req() request: Request, @Body() body: ReadEventsRequest): Promise<EventsResponse> {
    const { caller: service } = getPrincipal(request, 'app');
    const { after, consumer, limit, wait_seconds: waitSeconds } = body;
    const verifyAgain = () => this.doors.authenticate('app', request, { isFresh: true });
    const isAbandoned = () => request.socket.destroyed;
    const actor = toActor(request);
    const poll = { service, consumer, after, limit, waitSeconds, actor, verifyAgain, isAbandoned };
    return EventsResponse.from(await this.feed.readEvents(poll));
  }
}
