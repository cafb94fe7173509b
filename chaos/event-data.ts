// What the data of an event may hold, as docs/events.md says. It is written down a second time, because the judge must
// not learn it from the service.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { EventType } from '../src/domain/events/event-types.js';
import type { Act, EventData } from './acts.js';

const nothing = z.strictObject({});
const code = z.string().regex(/^[a-z_]+$/);
const member = { user_id: z.uuid(), role: z.enum(['admin', 'member']).optional() };
const node = z.strictObject({ household_id: z.uuid(), room: z.string(), name: z.string() }).partial();

const forms = {
  'user.registered': nothing,
  'user.deleted': nothing,
  'user.disabled': nothing,
  'user.enabled': nothing,
  'user.email_changed': nothing,
  'user.credentials_changed': z.strictObject({ what: z.enum(['password', 'second_factor']) }),
  'session.ended': z.strictObject({ reason: code, count: z.int().min(1), session_id: z.uuid().optional() }),
  'household.created': nothing,
  'household.deleted': nothing,
  'household.member_added': z.strictObject(member),
  'household.member_changed': z.strictObject(member),
  'household.member_removed': z.strictObject({ ...member, reason: z.enum(['removed', 'left']) }),
  'node.registered': node,
  'node.changed': node,
  'node.revoked': nothing,
  'app.revoked': nothing,
} satisfies Record<EventType, z.ZodType>;
const FORMS: ReadonlyMap<string, z.ZodType> = new Map(Object.entries(forms));

/** @returns whether the data has each field that docs/events.md promises, and no other one */
export function hasPromisedForm(type: string, data: EventData): boolean {
  return FORMS.get(type)?.safeParse(data).success ?? false;
}

/**
 * Matches acts of one type on one subject with their events in the audit log.
 * @returns what the data of the events does not tell, and what it tells that was not done
 */
export function findUntrueData(acts: readonly Act[], events: readonly { readonly data: EventData }[]): string[] {
  const left = events.map(({ data }) => data);
  const objections: string[] = [];
  // An act without a response may have no event, so it takes one that no acknowledged act needs.
  for (const { isAcknowledged, data } of acts.toSorted((a, b) => Number(b.isAcknowledged) - Number(a.isAcknowledged))) {
    const index = left.findIndex((told) => tells(told, data));
    if (index >= 0) left.splice(index, 1);
    else if (isAcknowledged) objections.push(`no event has the data ${JSON.stringify(data)}`);
  }
  return [...objections, ...left.map((data) => `no act has the data ${JSON.stringify(data)}`)];
}

/** An act knows some of the fields, such as the reason, and not how many sessions it ended. */
function tells(told: EventData, known: EventData): boolean {
  return Object.entries(known).every(([name, value]) => isDeepStrictEqual(told[name], value));
}
