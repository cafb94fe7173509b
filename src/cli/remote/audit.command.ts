import { Command, InvalidArgumentError } from 'commander';
import { AUDIT_EVENT_NAMES } from '../../audit/audit-events.js';
import { formatTable } from '../table.js';
import { print } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { followEvents, listReferences, toRow, type AuditEvent } from './audit-events.js';
import { parsePast } from './moments.js';
import { Names } from './names.js';
import { createClient, createNumberParser, readOutput, describeRemote } from './remote-command.js';
import { findUserId } from './users.command.js';

const COLUMNS = ['time', 'event', 'actor', 'subject', 'address', 'count', 'request_id'] as const;
const DROP = ['request_id', 'count', 'address', 'actor'] as const;
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000_000;

interface AuditOptions {
  readonly actor?: string;
  readonly subject?: string;
  readonly event?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: number;
  readonly follow: boolean;
}

/** `platform-auth audit`: events of the audit log. */
export function createAuditCommand(): Command {
  return describeRemote(
    new Command('audit'),
    'Show events of the audit log.',
    'audit --subject alice@example.org --since 7d --follow',
  )
    .option(
      '--actor <id>',
      'only events of this user (id or e-mail address), app, node, operator:<name>, or admin, open, cli or service',
    )
    .option('--subject <id>', 'only events about this user (id or e-mail address), node, app credential or operator')
    .option('--event <name>', 'only events of this name, as in admin.node.revoked', parseEvent)
    .option('--since <moment>', 'ISO 8601, or how long ago: 30m, 24h, 7d', parsePast)
    .option('--until <moment>', 'ISO 8601, or how long ago', parsePast)
    .option('--limit <number>', 'maximum number of events', createNumberParser(1, MAX_LIMIT), DEFAULT_LIMIT)
    .option('--follow', 'then print new events, one per line, until Ctrl-C', false)
    .addHelpText('after', `\nEvents:\n${AUDIT_EVENT_NAMES.map((name) => `  ${name}`).join('\n')}`)
    .action(async (options: AuditOptions, command: Command) => {
      const { limit, follow, event, since, until } = options;
      if (follow && until !== undefined) command.error('error: --follow and --until exclude each other');
      const client = createClient(command);
      const [actor, subject] = [await toId(client, options.actor), await toId(client, options.subject)];
      const query = { actor, subject, event, since, until };
      if (follow) await followEvents(client, query, limit, readOutput(command));
      else await showEvents(client, await client.list<AuditEvent>('/audit-events', query, limit), command);
    });
}

async function showEvents(client: AdminClient, items: AuditEvent[], command: Command): Promise<void> {
  const output = readOutput(command);
  const names = new Names(client);
  if (!output.json) await names.learn(items.flatMap(listReferences));
  const toText = (): string =>
    formatTable(
      COLUMNS,
      items.map((item) => toRow(item, names)),
      { drop: DROP },
    );
  print(output, { items }, toText);
}

async function toId(client: AdminClient, text: string | undefined): Promise<string | undefined> {
  return text === undefined ? undefined : findUserId(client, text);
}

function parseEvent(text: string): string {
  if (!AUDIT_EVENT_NAMES.some((name) => name === text))
    throw new InvalidArgumentError(`It must be one of: ${AUDIT_EVENT_NAMES.join(', ')}.`);
  return text;
}
