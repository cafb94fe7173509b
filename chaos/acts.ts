import type { EventType } from '../src/domain/events/event-types.js';

export type EventData = Readonly<Record<string, unknown>>;

/** The events that tell an act, by type: what their data must have at least. */
export type Told = Readonly<Partial<Record<EventType, EventData>>>;

/** An act that services are told: one event of this type. */
export interface Act {
  readonly type: EventType;
  readonly subject: string;
  readonly data: EventData;
  isAcknowledged: boolean;
}

export function toActs(told: Told, subject: string, isAcknowledged: boolean): Act[] {
  return Object.entries(told).map(([type, data]) => ({ type: type as EventType, subject, data, isAcknowledged }));
}
