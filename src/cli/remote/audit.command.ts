import { Command, InvalidArgumentError } from 'commander';
import { clientOf, numberFrom, outputOf, remote } from './remote-command.js';
import { print, table } from '../terminal.js';

const COLUMNS = ['time', 'event', 'actor', 'subject', 'address', 'count', 'request_id'] as const;
const DEFAULT_LIMIT = 50;
const MOST = 1_000_000;
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

/** `platform-auth audit`: who did what. */
export function auditCommand(): Command {
  return remote(
    new Command('audit'),
    'Show who did what, from the record of the service.',
    'audit --event admin.node.revoked --since 7d',
  )
    .option('--actor <id>', 'who did it')
    .option('--subject <id>', 'to whom or what it was done')
    .option('--event <name>', 'what was done, as in admin.node.revoked')
    .option('--since <moment>', 'ISO 8601, or how long ago: 30m, 24h, 7d', moment)
    .option('--until <moment>', 'ISO 8601, or how long ago', moment)
    .option('--limit <number>', 'how many at most', numberFrom(1, MOST), DEFAULT_LIMIT)
    .action(async ({ limit, actor, subject, event, since, until }: AuditOptions, command: Command) => {
      const query = { actor, subject, event, since, until };
      const items = await clientOf(command).list<AuditEvent>('/audit-events', query, limit);
      print(outputOf(command), { items }, () => table(COLUMNS, items.map(rowOf)));
    });
}

function rowOf({ actor, ...event }: AuditEvent) {
  const { time, event: name, subject, address, count, request_id } = event;
  const who = [actor?.door, actor?.id].filter((part) => part !== null && part !== undefined).join(' ');
  return { time, event: name, actor: who, subject, address, count, request_id };
}

function moment(text: string): string {
  const [, amount, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const at = amount === undefined ? Date.parse(text) : Date.now() - Number(amount) * (UNIT_MS[unit] ?? NaN);
  if (Number.isNaN(at))
    throw new InvalidArgumentError('It must be a date and time (ISO 8601), or how long ago: 30m, 24h, 7d.');
  return new Date(at).toISOString();
}
