import { setTimeout as sleep } from 'node:timers/promises';
import { Help, InvalidArgumentError, type Command, type Option } from 'commander';
import { isId } from '../../foundation/common/ids.js';
import { isKeyKind, KEY_KIND_NAMES, KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { AUDIT_EVENT_NAMES, listMatchingEvents } from '../../foundation/common/security-events.js';
import { readVariables } from '../../foundation/config/environment.js';
import { createNumberParser, NEEDS_DATABASE, parsePast } from '../command-options.js';
import { isTransient } from '../http-client.js';
import { print, say, writeExport } from '../terminal.js';
import { escapeJson, formatTable, replaceControlCharacters } from '../tables.js';
import { Names, type AdminClient, type ResourceType, type Query, type Reference } from './admin-client.js';
import { addRemote, createClient, readOptions } from './remote-command.js';
import type { AuditEventResponse } from '../../api/admin/audit-events.admin.controller.js';
import { findUserId } from './users.command.js';

const COLUMNS = ['time', 'event', 'actor', 'subject', 'details', 'address', 'count', 'request_id', 'id'] as const;
const DROP = ['id', 'request_id', 'count', 'address', 'details', 'actor'] as const;
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000_000;
const POLL_INTERVAL_MS = 2_000;
/** Longer than a window of counted refusals (15 minutes), which has the time of its first one while its count grows. */
const LOOK_BACK_MS = 16 * 60_000;
const MAX_EVENTS_A_POLL = 10_000;
const EXPORT_PAGE_SIZE = 1_000;
const SUBJECT_TYPES: readonly (readonly [beginning: string, type: ResourceType])[] = [
  ['user.', 'user'],
  ['session.', 'user'],
  ['admin.user.', 'user'],
  ['household.', 'household'],
  ['admin.scope.', 'operator'],
  ...KEY_KIND_NAMES.flatMap((name) => [
    [`${name}.`, name] as const,
    [`${KEY_KINDS[name].auditPrefix}.`, name] as const,
  ]),
];

/** `audit` parses its options before its subcommands do, so each subcommand names those that it honours. */
const HONOURED: Readonly<Record<string, readonly string[]>> = {
  export: ['url', 'actor', 'subject', 'event', 'since', 'until', 'limit'],
};

type AuditOptions = Query & { readonly limit: number; readonly follow: boolean };

/** `platform-auth audit`: events of the audit log. */
export function addAuditCommand(root: Command): Command {
  const example = '--subject alice@example.org --since 7d --follow';
  const audit = addRemote(root, 'audit', 'Show events of the audit log.', example)
    .option(
      '--actor <id>',
      'only events of this user (id or e-mail address), app, node, operator:<name>, or admin, open, cli or service',
    )
    .option(
      '--subject <id>',
      'only events about this user (id or e-mail address), or about another subject, as an event shows it',
    )
    .option(
      '--event <name>',
      "only events of this name, as in admin.node.revoked, or whose names begin so, as in 'user.*'",
      parseEvent,
    )
    .option('--since <moment>', 'ISO 8601, or how long ago: 30m, 24h, 7d', parsePast)
    .option('--until <moment>', 'ISO 8601, or how long ago', parsePast)
    .option('--limit <number>', 'maximum number of events', createNumberParser(1, MAX_LIMIT), DEFAULT_LIMIT)
    .option('--follow', 'then print new events, one per line, until Ctrl-C', false)
    .addHelpText('after', `\nEvents:\n${AUDIT_EVENT_NAMES.map((name) => `  ${name}`).join('\n')}`)
    .action(async ({ limit, follow, actor, subject, event, since, until }: AuditOptions, command: Command) => {
      if (follow && until !== undefined) command.error('error: --follow and --until exclude each other');
      const client = createClient(command);
      const query = await resolveUserIds(client, { actor, subject, event, since, until });
      const names = readOptions(command).json ? undefined : new Names(client);
      if (follow) await followEvents(client, query, limit, names);
      const items = await client.list<AuditEventResponse>('/audit-events', query, limit);
      await names?.learn(items.flatMap(listReferences));
      print(command, { items }, () =>
        formatTable(
          COLUMNS,
          items.map((item) => toRow(item, names)),
          { drop: DROP },
        ),
      );
    });
  refuseUnusedOptions(audit);
  return audit;
}

/** Refuses the options of `audit` that a subcommand would ignore, and hides them in its help. */
function refuseUnusedOptions(audit: Command): void {
  const isUnused = (subcommand: Command, option: Option): boolean =>
    audit.options.includes(option) && !HONOURED[subcommand.name()]?.includes(option.attributeName());
  audit.hook('preSubcommand', (_audit, subcommand) => {
    for (const option of audit.options)
      if (audit.getOptionValueSource(option.attributeName()) === 'cli' && isUnused(subcommand, option))
        subcommand.error(`error: audit ${subcommand.name()} has no option ${option.long}`);
  });
  audit.configureHelp({
    ...audit.configureHelp(),
    visibleGlobalOptions(command): Option[] {
      return Help.prototype.visibleGlobalOptions.call(this, command).filter((option) => !isUnused(command, option));
    },
  });
}

function parseEvent(text: string): string {
  if (listMatchingEvents(text).length === 0)
    throw new InvalidArgumentError(
      `It must be one of: ${AUDIT_EVENT_NAMES.join(', ')}; or the beginning of some and .*, as in 'user.*'.`,
    );
  return text;
}

/** @returns the users, households, nodes, apps and operators that an event names by their ids */
function listReferences({ event, actor, subject }: AuditEventResponse): Reference[] {
  const references: Reference[] = [];
  const type = SUBJECT_TYPES.find(([beginning]) => event.startsWith(beginning))?.[1];
  if (type && subject !== null && isId(subject)) references.push({ type, id: subject });
  // An event has the name of an operator, and the id of any other actor.
  if (actor.id && isId(actor.id) && (actor.door === 'user' || isKeyKind(actor.door)))
    references.push({ type: actor.door, id: actor.id });
  return references;
}

function toRow({ actor, subject, details, ...event }: AuditEventResponse, names?: Names) {
  const caller = actor.name ?? [actor.door, names?.get(actor.id)].filter(Boolean).join(' ');
  const lines = Object.entries(details).map(
    ([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return { ...event, actor: caller, subject: names?.get(subject), details: lines };
}

/**
 * Prints events, oldest first, and then new ones as they happen. A counted event (failed logins) is printed again when
 * its count has grown.
 * @param names undefined prints JSON
 */
async function followEvents(client: AdminClient, query: Query, limit: number, names?: Names): Promise<never> {
  let counts = new Map<string, number>();
  /** The newest event that any filter accepts, because the clock of this machine may differ from that of the service. */
  let newest: AuditEventResponse | undefined;
  /** Later polls do not go further back. */
  let start = -Infinity;
  for (;;) {
    try {
      const [newestNow] = await client.list<AuditEventResponse>('/audit-events', {}, 1);
      const max = newest === undefined ? limit : MAX_EVENTS_A_POLL;
      const since = newest === undefined ? query.since : lookBack(newest, start);
      const items = await client.list<AuditEventResponse>('/audit-events', { ...query, since }, max);
      const fresh = items.filter(({ id, count }) => count > (counts.get(id) ?? 0)).reverse();
      await names?.learn(fresh.flatMap(listReferences));
      for (const item of fresh)
        process.stdout.write(`${names ? formatLine(item, names) : escapeJson(JSON.stringify(item))}\n`);
      counts = new Map(items.map(({ id, count }) => [id, count]));
      if (newest === undefined && newestNow) start = findStart(items, newestNow, query.since);
      newest = newestNow;
    } catch (error) {
      // The next poll reads what a failed one missed.
      if (!isTransient(error)) throw error;
      say(error.message);
    }
    await sleep(POLL_INTERVAL_MS);
  }
}

/** @returns the time of the oldest printed event; before the first one, that from which every event is a new one */
function findStart(items: readonly AuditEventResponse[], newest: AuditEventResponse, since?: string): number {
  const oldest = items.at(-1);
  if (oldest) return Date.parse(oldest.time);
  // A moment that this machine's clock gave may be in the future of the service.
  return since === undefined ? -Infinity : Math.min(Date.parse(since), Date.parse(newest.time) + 1);
}

function lookBack({ time }: AuditEventResponse, start: number): string {
  return new Date(Math.max(Date.parse(time) - LOOK_BACK_MS, start)).toISOString();
}

function formatLine(item: AuditEventResponse, names: Names): string {
  const { time, event, actor, subject, address, count, details, id } = toRow(item, names);
  const parts = [time, event, actor, subject, address, count > 1 ? `${count} times` : '', details.join(', '), id];
  return parts.map(replaceControlCharacters).filter(Boolean).join('  ');
}

type ExportOptions = Readonly<{ fromDatabase: boolean; output?: string }>;

/** `platform-auth audit export`: the audit log as a file, which `platform-auth replay` reads after a restore. */
export function addAuditExportCommand(audit: Command): void {
  const description = 'Write events of the audit log, one JSON object per line, newest first.';
  addRemote(audit, 'export', description, '--from-database --since 30d -o audit.ndjson')
    .option('--from-database', 'read them from the database, also while the service is stopped', false)
    .option('-o, --output <file>', 'a new file, which only its owner may read (default: standard output)')
    .addHelpText(
      'after',
      `\nWithout --limit, no event is left out. With --from-database, --actor and --subject take no e-mail address.\n${NEEDS_DATABASE}`,
    )
    .action(async ({ fromDatabase, output }: ExportOptions, command: Command) => {
      const { actor, subject, event, since, until, limit } = command.optsWithGlobals<Query & { limit: number }>();
      const max = audit.getOptionValueSource('limit') === 'cli' ? limit : Infinity;
      const query = { actor, subject, event, since, until };
      if (fromDatabase) await refuseInvalid(command, query);
      const exported = fromDatabase
        ? await exportFromDatabase(output, query, max)
        : await writeExport(output, readService(command, query, max), JSON.stringify);
      const text = `Exported events: ${exported}.`;
      if (output === undefined) say(text);
      else print(command, { exported }, () => text);
    });
}

async function* readService(command: Command, query: Query, max: number): AsyncGenerator<AuditEventResponse[]> {
  const client = createClient(command);
  const resolved = await resolveUserIds(client, query);
  for await (const { items } of client.readPages<AuditEventResponse>('/audit-events', resolved, max)) yield items;
}

/** @returns the query with the ids of users who are named by their e-mail addresses */
async function resolveUserIds(client: AdminClient, { actor, subject, ...query }: Query): Promise<Query> {
  return {
    ...query,
    actor: actor && (await findUserId(client, actor)),
    subject: subject && (await findUserId(client, subject)),
  };
}

/** Validates what the route does not see. */
async function refuseInvalid(command: Command, { actor, subject }: Query): Promise<void> {
  const { ACTOR, SUBJECT } = await import('../../api/admin/audit-events.admin.controller.js');
  const refuse = (option: string, text: string | undefined, { pattern, message }: typeof ACTOR): void => {
    if (text !== undefined && !new RegExp(pattern).test(text))
      command.error(`error: with --from-database, ${option} ${message}, and no e-mail address`);
  };
  refuse('--actor', actor, ACTOR);
  refuse('--subject', subject, SUBJECT);
}

async function exportFromDatabase(file: string | undefined, query: Query, max: number): Promise<number> {
  const { withServices } = await import('../database/database-services.js');
  const { AuditEventResponse, toAuditFilter } = await import('../../api/admin/audit-events.admin.controller.js');
  const filter = toAuditFilter(query);
  return withServices(readVariables(), ({ audit }) => {
    async function* readPages(): AsyncGenerator<AuditEventResponse[]> {
      let left = max;
      for (let cursor: string | null | undefined; cursor !== null && left > 0;) {
        const page = await audit.listEvents(filter, Math.min(EXPORT_PAGE_SIZE, left), cursor);
        yield page.items.map((row) => AuditEventResponse.from(row));
        cursor = page.nextCursor;
        left -= page.items.length;
      }
    }
    return writeExport(file, readPages(), JSON.stringify);
  });
}
