import { Body, Delete, Get, Param, Post, Put, Query, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import type { Request } from 'express';
import { EVENT_TYPES, formatEventId, type EventType } from '../../domain/events/event-types.js';
import {
  SubscriptionsService,
  type Subscription,
  type UnreadEvent,
} from '../../domain/events/subscriptions.service.js';
import { toActor } from '../../foundation/access/actor.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import {
  ChoicesField,
  IfSent,
  MOMENT,
  MomentField,
  NULLABLE_MOMENT,
  parseMoment,
  QueryNumberField,
  SwitchField,
  TextField,
} from '../../foundation/common/fields.js';
import { EXAMPLES, SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import { problems } from '../../foundation/problems/problems.js';

const MAX_LISTED = 100;
/** A UUID, a colon and a type. */
const MAX_EVENT_ID_LENGTH = 100;
const EVENT_ID = `${EXAMPLES.id}:user.deleted`;
const STARTS = ['now', 'beginning'] as const;

class SetEventSubscriptionRequest {
  @ChoicesField(EVENT_TYPES, 'EventType', ['user.deleted', 'user.disabled']) types!: EventType[];

  @ApiPropertyOptional({
    enum: STARTS,
    enumName: 'EventSubscriptionStart',
    description: 'of a new subscription',
    example: 'now',
  })
  @IfSent()
  @IsIn(STARTS, { message: 'must be now or beginning' })
  from?: (typeof STARTS)[number];
}

class RewindEventsRequest {
  @MomentField('read again what happened since then; absent: all events that are kept') to?: string;
}

class SkipEventsRequest {
  @SwitchField({ description: 'all unread events, instead of the oldest one', example: false }) all?: boolean;

  @TextField(
    MAX_EVENT_ID_LENGTH,
    {
      description: 'the oldest unread event, as `oldest_unread.id` shows it; 409 when it is another one now',
      example: EVENT_ID,
    },
    { optional: true },
  )
  event?: string;
}

class UnreadEventsQuery {
  @QueryNumberField(MAX_LISTED, { default: MAX_LISTED }) limit?: number;
}

class UnreadEventResponse {
  @ApiProperty({ example: EVENT_ID }) id!: string;
  @ApiProperty({ enum: EVENT_TYPES, enumName: 'EventType' }) type!: EventType;
  @ApiProperty(MOMENT) time!: string;
  @ApiProperty({ description: 'the id of the user, household, node or app credential', example: EXAMPLES.id })
  subject!: string;

  static from({ id, type, time, subject }: UnreadEvent): UnreadEventResponse {
    return { id: formatEventId(id, type), type, time: new Date(time).toISOString(), subject };
  }
}

export class EventSubscriptionResponse {
  @ApiProperty({ ...SERVICE_NAME_FORMAT.schema, example: EXAMPLES.target }) service!: string;
  @ApiProperty({ enum: EVENT_TYPES, enumName: 'EventType', isArray: true, example: ['user.deleted'] })
  types!: EventType[];

  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(NULLABLE_MOMENT) last_polled_at!: string | null;

  @ApiProperty({ description: 'the next poll is answered with a reset, as after a restore', example: false })
  needs_reset!: boolean;

  @ApiProperty({ type: 'integer', description: 'counted up to 1,000 of each type', example: 3 }) unread!: number;
  @ApiProperty({ type: 'integer', example: 3 }) unread_deletions!: number;

  @ApiProperty({ type: UnreadEventResponse, nullable: true, example: null })
  oldest_unread!: UnreadEventResponse | null;

  static from(subscription: Subscription): EventSubscriptionResponse {
    const { service, types, createdAt, polledAt, needsReset, unread, unreadDeletions, oldest } = subscription;
    return {
      service,
      types,
      created_at: createdAt.toISOString(),
      last_polled_at: polledAt?.toISOString() ?? null,
      needs_reset: needsReset,
      unread,
      unread_deletions: unreadDeletions,
      oldest_unread: oldest && UnreadEventResponse.from(oldest),
    };
  }
}

class EventSubscriptionsResponse {
  @ApiProperty({ type: [EventSubscriptionResponse] }) items!: EventSubscriptionResponse[];
}

class UnreadEventsResponse {
  @ApiProperty({ type: [UnreadEventResponse], maxItems: MAX_LISTED }) items!: UnreadEventResponse[];
}

class ResetEventSubscriptionsResponse {
  @ApiProperty({ type: [String], description: 'the services', example: [EXAMPLES.target] }) reset!: string[];
}

@AdminController('/event-subscriptions')
export class EventSubscriptionsAdminController {
  constructor(private readonly subscriptions: SubscriptionsService) {}

  @Get()
  @RequireAdmin('apps', {
    summary: 'List the subscriptions to events',
    description: 'One for each service that subscribes: how far it is, and the oldest event that it has not read.',
    returns: EventSubscriptionsResponse,
  })
  async listEventSubscriptions(): Promise<EventSubscriptionsResponse> {
    const all = await this.subscriptions.listSubscriptions();
    return { items: all.map((each) => EventSubscriptionResponse.from(each)) };
  }

  @Post('reset')
  @RequireAdmin('apps', {
    summary: 'Reset all subscriptions to events',
    description: 'After a restore: the next poll of each service is answered with a reset, and the service compares.',
    returns: ResetEventSubscriptionsResponse,
  })
  async resetEventSubscriptions(@Req() request: Request): Promise<ResetEventSubscriptionsResponse> {
    return { reset: await this.subscriptions.resetSubscriptions(toActor(request)) };
  }

  @Get(':service')
  @RequireAdmin('apps', {
    summary: 'Get a subscription to events',
    refusals: [problems.notFound],
    returns: EventSubscriptionResponse,
  })
  async getEventSubscription(@Param('service') service: string): Promise<EventSubscriptionResponse> {
    return EventSubscriptionResponse.from(await this.subscriptions.getSubscription(service));
  }

  @Get(':service/events')
  @RequireAdmin('apps', {
    summary: 'List the events that a service has not acknowledged',
    description: 'The oldest ones, in the order in which the service reads them.',
    refusals: [problems.notFound],
    returns: UnreadEventsResponse,
  })
  async listUnreadEvents(
    @Param('service') service: string,
    @Query() { limit = MAX_LISTED }: UnreadEventsQuery,
  ): Promise<UnreadEventsResponse> {
    const events = await this.subscriptions.listUnread(service, limit);
    return { items: events.map((event) => UnreadEventResponse.from(event)) };
  }

  @Put(':service')
  @RequireAdmin('apps', {
    summary: 'Subscribe a service to events',
    description:
      'Replaces the types. A type that is added begins at the position of the service. 400 unless the service has a live app ' +
      'credential for this one, with which it reads.',
    returns: EventSubscriptionResponse,
  })
  async setEventSubscription(
    @Req() request: Request,
    @Param('service') service: string,
    @Body() { types, from = 'now' }: SetEventSubscriptionRequest,
  ): Promise<EventSubscriptionResponse> {
    const subscription = await this.subscriptions.setSubscription(service, types, from, toActor(request));
    return EventSubscriptionResponse.from(subscription);
  }

  @Delete(':service')
  @RequireAdmin('apps', { summary: 'End a subscription to events', refusals: [problems.notFound] })
  async removeEventSubscription(@Req() request: Request, @Param('service') service: string): Promise<void> {
    await this.subscriptions.removeSubscription(service, toActor(request));
  }

  @Post(':service/rewind')
  @RequireAdmin('apps', {
    summary: 'Let a service read events again',
    description: 'The position moves back, never forward. Cursors from before continue at the new position.',
    refusals: [problems.notFound],
    optionalBody: RewindEventsRequest,
  })
  async rewindEvents(@Req() request: Request, @Param('service') service: string, @Body() { to }: RewindEventsRequest) {
    await this.subscriptions.rewindSubscription(service, parseMoment(to) ?? null, toActor(request));
  }

  @Post(':service/skip')
  @RequireAdmin('apps', {
    summary: 'Pass over events that a service cannot read',
    description:
      'The oldest unread one, or all. No receipt is written for them. Send `event`, so that a call which is repeated, or ' +
      'comes late, passes over no other event.',
    refusals: [problems.notFound, problems.eventNotNext],
    optionalBody: SkipEventsRequest,
  })
  async skipEvents(
    @Req() request: Request,
    @Param('service') service: string,
    @Body() { all = false, event }: SkipEventsRequest,
  ): Promise<void> {
    await this.subscriptions.skipEvents(service, { all, event }, toActor(request));
  }
}
