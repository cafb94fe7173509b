import type { Command } from 'commander';
import { describeAdmin } from '../../access/actor.js';
import type { StoredAuditEvent } from '../../audit/audit-events.js';
import { listMatchingEvents } from '../../common/security-events.js';
import { readVariables } from '../../config/environment.js';
import { NEEDS_DATABASE } from '../command-options.js';
import { writeExport, type WriteLines } from '../export-file.js';
import { print, say } from '../terminal.js';
import { addRemote, createClient, type Query } from './admin-client.js';

const PAGE_SIZE = 1_000;

type ExportOptions = Readonly<{ fromDatabase: boolean; output?: string; actor?: string; subject?: string }>;

/** `platform-auth audit export`: the audit log as a file, which `platform-auth replay` reads after a restore. */
export function addAuditExportCommand(audit: Command): void {
  const description = 'Write the events of the audit log, one JSON object per line, newest first.';
  addRemote(audit, 'export', description, '--from-database --since 30d -o audit.ndjson')
    .option('--from-database', 'read them from the database, also while the service is stopped', false)
    .option('-o, --output <file>', 'a new file, which only its owner may read (default: standard output)')
    .addHelpText(
      'after',
      `\nWith --from-database: ${NEEDS_DATABASE}\nOf the filters, --event, --since and --until hold.`,
    )
    .action(async ({ fromDatabase, output }: ExportOptions, command: Command) => {
      // The filters are options of `audit`, which reads them first.
      const { actor, subject, event, since, until } = command.optsWithGlobals<Query>();
      if (actor ?? subject) command.error('error: audit export has no filter --actor and no --subject');
      const query = { event, since, until };
      const exported = await writeExport(output, async (writeLines) =>
        fromDatabase ? readDatabase(query, writeLines) : readService(command, query, writeLines),
      );
      const text = `Exported events: ${exported}.`;
      if (output === undefined) say(text);
      else print(command, { exported }, () => text);
    });
}

async function readService(command: Command, query: Query, writeLines: WriteLines): Promise<void> {
  for await (const { items } of createClient(command).readPages<object>('/audit-events', query))
    await writeLines(items.map((item) => JSON.stringify(item)));
}

async function readDatabase({ event, since, until }: Query, writeLines: WriteLines): Promise<void> {
  const { withServices } = await import('../platform/database-services.js');
  const toDate = (text: string | undefined): Date | undefined => (text === undefined ? undefined : new Date(text));
  const filter = {
    actor: undefined,
    subject: undefined,
    events: event === undefined ? undefined : listMatchingEvents(event),
    since: toDate(since),
    until: toDate(until),
  };
  await withServices(readVariables(), async ({ audit }) => {
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await audit.listEvents(filter, PAGE_SIZE, cursor);
      await writeLines(page.items.map((row) => JSON.stringify(toItem(row))));
      cursor = page.nextCursor;
    }
  });
}

/** The event as the service answers it. */
function toItem({ actor_door: door, actor_id: id, ...row }: StoredAuditEvent): object {
  const { operator } = row.details;
  const name = door === 'admin' && id !== null && typeof operator === 'string' ? describeAdmin(operator) : null;
  return { ...row, actor: { door, id, name } };
}
