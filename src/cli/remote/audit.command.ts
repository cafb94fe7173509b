import { Command, InvalidArgumentError } from 'commander';
import { createClient, createNumberParser, readOutput, describeRemote } from './remote-command.js';
import { formatTable } from '../table.js';
import { print } from '../terminal.js';

const COLUMNS = ['time', 'event', 'actor', 'subject', 'address', 'count', 'request_id'] as const;
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000_000;
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

interface AuditEvent {
  readonly id: string;
  readonly time: string;
  readonly event: string;
  readonly actor: { readonly door: string | null; readonly id: string | null } | null;
  readonly subject: string | null;
  readonly request_id: string | null;
  readonly address: string | null;
  readonly count: number;
  readonly details: unknown;
}

interface AuditOptions {
  readonly actor?: string;
  readonly subject?: string;
  readonly event?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: number;
}

/** `platform-auth audit`: events of the audit log. */
export function createAuditCommand(): Command {
  return describeRemote(
    new Command('audit'),
    'Show events of the audit log.',
    'audit --event admin.node.revoked --since 7d',
  )
    .option('--actor <id>', 'only events of this user, app or node')
    .option('--subject <id>', 'only events about this user, credential or session')
    .option('--event <name>', 'only events of this name, as in admin.node.revoked')
    .option('--since <moment>', 'ISO 8601, or how long ago: 30m, 24h, 7d', parseMoment)
    .option('--until <moment>', 'ISO 8601, or how long ago', parseMoment)
    .option('--limit <number>', 'maximum number of events', createNumberParser(1, MAX_LIMIT), DEFAULT_LIMIT)
    .action(async ({ limit, actor, subject, event, since, until }: AuditOptions, command: Command) => {
      const query = { actor, subject, event, since, until };
      const items = await createClient(command).list<AuditEvent>('/audit-events', query, limit);
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items.map(toRow)));
    });
}

function toRow({ actor, ...event }: AuditEvent) {
  const { time, event: name, subject, address, count, request_id } = event;
  const caller = [actor?.door, actor?.id].filter((part) => part !== null && part !== undefined).join(' ');
  return { time, event: name, actor: caller, subject, address, count, request_id };
}

function parseMoment(text: string): string {
  const [, amount, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const at = amount === undefined ? Date.parse(text) : Date.now() - Number(amount) * (UNIT_MS[unit] ?? NaN);
  if (Number.isNaN(at))
    throw new InvalidArgumentError('It must be a date and time (ISO 8601), or how long ago: 30m, 24h, 7d.');
  return new Date(at).toISOString();
}
