import type { Command } from 'commander';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE } from '../command-options.js';
import { CommandFailedError, print, say, addYes, createConfirm } from '../terminal.js';
import { formatTable, wrapText } from '../tables.js';
import type { ImportReport } from './user-transfer.js';

const HELP = { needs: `${NEEDS_DATABASE} The service may run meanwhile.`, variables: DATABASE_EXAMPLE };

/** `platform-auth users import`: accounts of another system, with their password hashes; see docs/operations/users.md. */
export function addImportCommand(users: Command): void {
  addCommand(
    users,
    'import',
    'Import accounts with their password hashes. An account that exists stays as it is. Exit code 1 when a line was refused.',
    { ...HELP, example: 'users.ndjson --dry-run' },
  )
    .argument(
      '<file>',
      'one JSON object per line, or CSV with a header (docs/operations/users.md); - reads standard input',
    )
    .option('--dry-run', 'check every line and change nothing', false)
    .action(async (file: string, { dryRun }: { dryRun: boolean }, command: Command) => {
      const { importUsers } = await import('./user-transfer.js');
      const report = await runUntilSignal((signal) => importUsers(file, dryRun, signal));
      print(command, report, formatImport);
      if (report.interrupted)
        throw new CommandFailedError('Interrupted. Run it again: it goes on where it stopped.', 'interrupted');
      if (report.refused > 0)
        throw new CommandFailedError(
          `Refused lines: ${report.refused}. Correct them, and run it again: the others are not imported twice.`,
          'lines_refused',
        );
    });
}

/** `platform-auth users export`: every account with its password hash, as `users import` reads it. */
export function addExportCommand(users: Command): void {
  const description = 'Export all accounts with their password hashes, without sessions and second factors.';
  addYes(addCommand(users, 'export', description, { ...HELP, example: '--yes -o users.ndjson' }))
    .option('-o, --output <file>', 'a new file, which only its owner may read (default: standard output)')
    .action(async ({ output }: { output?: string }, command: Command) => {
      const warning = 'This writes the password hash of every account: a reader of it can guess passwords.';
      await createConfirm(command)(warning);
      const { exportUsers } = await import('./user-transfer.js');
      const exported = await runUntilSignal((signal) => exportUsers(output, signal));
      const text = `Exported accounts: ${exported}.`;
      // Without a file, standard output holds the accounts.
      if (output === undefined) say(text);
      else print(command, { exported }, () => text);
    });
}

/** Ctrl-C ends the run after the accounts at hand; a second one ends the process. */
async function runUntilSignal<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const abort = new AbortController();
  const stop = (): void => abort.abort();
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    return await work(abort.signal);
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

function formatImport(report: ImportReport): string {
  const { dry_run, lines, blank, imported, without_password, existing, refused, refused_lines } = report;
  const done = dry_run ? 'Would be imported' : 'Imported';
  const ofBlank = blank === 0 ? '' : ` Blank: ${blank}.`;
  const ofPassword =
    without_password > 0
      ? ` Without a password: ${without_password}; the link "forgot password" lets these people in.`
      : '';
  const counts = `Lines: ${lines}. ${done}: ${imported}. Existed before: ${existing}. Refused: ${refused}.${ofBlank}${ofPassword}`;
  if (refused === 0) return counts;
  const rows = refused_lines.map((each) => ({ ...each, reason: wrapText(each.reason) }));
  return `${counts}\n${formatTable(['line', 'code', 'reason'], rows)}`;
}
