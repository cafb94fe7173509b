import { Module } from '@nestjs/common';
import { EventCopy } from './event-copy.js';
import { EventFeed } from './event-feed.js';
import { EventLag } from './event-lag.js';
import { EventWaits } from './event-waits.js';
import { SubscriptionsService } from './subscriptions.service.js';

const SERVICES = [EventCopy, EventFeed, EventLag, EventWaits, SubscriptionsService];

@Module({ providers: SERVICES, exports: SERVICES })
export class EventsModule {}
