import type { Command } from 'commander';
import type { EventSubscriptionResponse } from '../../api/admin/event-subscriptions.admin.controller.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { joinPath } from '../http-client.js';
import { addCommand, createNumberParser, NEEDS_ADMIN_KEY, parsePast } from '../command-options.js';
import { formatTable } from '../tables.js';
import { addYes, createConfirm } from '../terminal.js';
import { addRemote } from './remote-command.js';

const PATH = '/event-subscriptions';
const COLUMNS = ['service', 'types', 'unread', 'deletions', 'oldest', 'since', 'last_polled_at'] as const;
const EVENT_COLUMNS = ['id', 'time', 'subject'] as const;
const MAX_LISTED = 100;

interface UnreadEvents {
  readonly items: readonly Readonly<Record<(typeof EVENT_COLUMNS)[number], string>>[];
}

/** `platform-auth events …`: how far each service has read what happened; see docs/events.md. */
export function addEventsCommands(root: Command): void {
  const description = 'See how far each service has read the events that it subscribes to, and move its position.';
  const events = addCommand(root, 'events', description, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(events);
  addTail(events);
  addRewind(events);
  addSkip(events);
}

function addList(events: Command): void {
  const description = 'List the services that read events, with the oldest event that each has not acknowledged.';
  addRemote(events, 'list', description, '').answer(
    async (client) => client.get<{ items: EventSubscriptionResponse[] }>(PATH),
    ({ items }) => formatTable(COLUMNS, items.map(toRow), { drop: ['types', 'last_polled_at'] }),
  );
}

function toRow({ service, types, unread, unread_deletions, oldest_unread, last_polled_at }: EventSubscriptionResponse) {
  const [oldest, since] = [oldest_unread?.type ?? null, oldest_unread?.time ?? null];
  return { service, types, unread, deletions: unread_deletions, oldest, since, last_polled_at };
}

function addTail(events: Command): void {
  const description =
    'List the oldest events that a service has not acknowledged, in the order in which it reads them.';
  addRemote(events, 'tail <service>', description, EXAMPLES.target)
    .option('--limit <number>', 'maximum number of events', createNumberParser(1, MAX_LISTED), MAX_LISTED)
    .answer(
      async (client, service: string, { limit }: { limit: number }) =>
        client.get<UnreadEvents>(joinPath(PATH, service, 'events'), { limit: String(limit) }),
      ({ items }) => formatTable(EVENT_COLUMNS, items, { drop: ['time'] }),
    );
}

function addRewind(events: Command): void {
  const description = 'Let a service read events again. Its position moves back, never forward.';
  addRemote(events, 'rewind <service>', description, `${EXAMPLES.target} --to 2026-11-23T03:00:00Z`)
    .option('--to <moment>', 'what happened since this moment; without it, all events that are kept', parsePast)
    .answer(
      async (client, service: string, { to }: { to?: string }) => {
        await client.post(joinPath(PATH, service, 'rewind'), { to });
        const { unread, oldest_unread } = await client.get<EventSubscriptionResponse>(joinPath(PATH, service));
        return { service, rewound: true, unread, oldest_unread };
      },
      ({ oldest_unread: oldest }, service, { to }) => {
        const start = to === undefined ? 'at the oldest event that is kept' : `at ${to}`;
        const next = oldest ? `The next event is ${describeEvent(oldest)}.` : 'Nothing is unread.';
        return `${service} reads again ${start}, unless it was not that far. ${next}`;
      },
    );
}

function addSkip(events: Command): void {
  const description = 'Pass over the oldest event that a service has not acknowledged. It gets no receipt.';
  addYes(addRemote(events, 'skip <service>', description, EXAMPLES.target))
    .option('--every', 'pass over all events that it has not acknowledged', false)
    .answer(
      async (client, service: string, { every }: { every: boolean }, command: Command) => {
        const { oldest_unread: oldest } = await client.get<EventSubscriptionResponse>(joinPath(PATH, service));
        if (!oldest) return { service, skipped: false, oldest_unread: null };
        const lost = every ? `any event so far, from ${describeEvent(oldest)} on` : describeEvent(oldest);
        await createConfirm(command)(`${service} then does not get ${lost}.`);
        const advice = `\`platform-auth events list\` shows the oldest event. Run this again only if it is still ${describeEvent(oldest)}.`;
        await client.post(joinPath(PATH, service, 'skip'), { all: every, event: oldest.id }, advice);
        return { service, skipped: true, oldest_unread: oldest };
      },
      ({ oldest_unread: oldest }, service, { every }) => {
        if (!oldest) return `Nothing is unread, so ${service} passes over nothing.`;
        return `${service} passes over ${every ? 'all events so far, from ' : ''}${describeEvent(oldest)}${every ? ' on' : ''}.`;
      },
    );
}

function describeEvent({ type, subject, time }: NonNullable<EventSubscriptionResponse['oldest_unread']>): string {
  return `${type} ${subject} of ${time}`;
}
