import { Command, InvalidArgumentError } from 'commander';
import type { Verification } from '../../audit/audit-verifier.js';
import { isCheckpoint } from '../../audit/checkpoint.js';
import { CommandFailed, during, print, table, wrapped, type Output } from '../terminal.js';

const NEEDS = `
Works on the database itself: needs DATABASE_URL, and the key that seals: AUDIT_SEAL_KEY, or SECRET_KEY when that is not set.`;

interface VerifyOptions extends Output {
  readonly checkpoint?: string;
  readonly oldKeys?: string;
}

/** `platform-auth audit verify`: whether the audit log is as it was sealed; see docs/audit.md. */
export function verifyCommand(): Command {
  return new Command('verify')
    .description('Hold the audit log against its seals. Exit code 1 when a row or a seal was tampered with.')
    .option('--checkpoint <line>', 'a line of "audit checkpoint" that was kept elsewhere', checkpoint)
    .option('--old-keys <file>', 'keys that sealed before the present one, one a line')
    .addHelpText('after', `${NEEDS}\n\nExample:\n  DATABASE_URL=postgresql://… platform-auth audit verify`)
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<VerifyOptions>();
      const { verifyAudit } = await import('./audit-seals.js');
      const report = await during('Reading the audit log', verifyAudit(options));
      print(options, report, asText);
      const { length } = report.findings;
      if (length > 0) throw new CommandFailed(`Not as it was sealed: ${length}${length === 1_000 ? ' or more' : ''}.`);
    });
}

/** `platform-auth audit checkpoint`: one line that stands for everything sealed so far. */
export function checkpointCommand(): Command {
  return new Command('checkpoint')
    .description('Print one line to keep elsewhere: it proves later that nothing sealed before it was rewritten.')
    .addHelpText('after', `${NEEDS}\n\nExample:\n  platform-auth audit checkpoint >> checkpoints.txt`)
    .action(async (_options, command: Command) => {
      const { auditCheckpoint } = await import('./audit-seals.js');
      const line = await auditCheckpoint();
      print(command.optsWithGlobals<Output>(), { checkpoint: line }, () => line);
    });
}

function asText(report: Verification): string {
  const { seals, rows, dropped_rows, dropped_months, sealed_until, waiting, findings } = report;
  const parts = [
    `${seals} seals, ${rows} rows, sealed until ${sealed_until ?? 'never'}. Rows that wait for the next seal: ${waiting}.`,
  ];
  if (dropped_months.length > 0)
    parts.push(`Dropped by retention: ${dropped_months.join(', ')} (${dropped_rows} rows).`);
  if (findings.length === 0) parts.push('All rows are as they were sealed.');
  else parts.push(table(['kind', 'row', 'time', 'what'], findings.map(rowOf)));
  return parts.join('\n');
}

function rowOf({ kind, row, time, what }: Verification['findings'][number]) {
  return { kind, row, time, what: wrapped(what) };
}

function checkpoint(line: string): string {
  if (!isCheckpoint(line)) throw new InvalidArgumentError('It must be a whole line of "audit checkpoint", in quotes.');
  return line;
}
