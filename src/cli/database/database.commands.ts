// Commands that connect to the database: migrate, the signing keys (docs/operations/keys.md), and the transfer of accounts.
// The service may run meanwhile.
import type { Command } from 'commander';
import { COMMAND_LINE } from '../../foundation/access/actor.js';
import { parseVariable, readVariables } from '../../foundation/config/environment.js';
import type { SigningKeyOperations } from '../../domain/signing-keys/signing-key-rotation.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE } from '../command-options.js';
import { addYes, CommandFailedError, createConfirm, print, runUntilSignal, say } from '../terminal.js';
import { formatTable, wrapText } from '../tables.js';
import type { ImportReport } from './user-transfer.js';

const HELP = { needs: NEEDS_DATABASE, variables: DATABASE_EXAMPLE };
const TRANSFER_HELP = { ...HELP, needs: `${NEEDS_DATABASE} The service may run meanwhile.` };

/** `platform-auth migrate`: applies missing migrations, as the service does when it starts. */
export function addMigrateCommand(root: Command): void {
  addCommand(root, 'migrate', 'Bring the database schema up to date.', {
    needs: `${NEEDS_DATABASE}
With --grant-to, the role cannot drop a month of the audit log before AUDIT_RETENTION_DAYS: give the service the same value.`,
    variables: 'DATABASE_URL=postgresql://owner:…@host/auth',
    example: '--grant-to auth_service',
  })
    .option('--grant-to <role>', 'grant this role the least privileges that the service needs; see docs/audit.md')
    .action(async ({ grantTo: role }: { grantTo?: string }, command: Command) => {
      const variables = readVariables();
      const databaseUrl = parseVariable(variables, 'DATABASE_URL');
      const auditRetentionDays = parseVariable(variables, 'AUDIT_RETENTION_DAYS');
      const { migrateWatched } = await import('./database-services.js');
      const report = { migrations: await migrateWatched(databaseUrl), granted_to: role };
      if (role !== undefined) {
        const { grantToService } = await import('../../foundation/database/grants.js');
        await grantToService(databaseUrl, role, auditRetentionDays);
      }
      print(command, report, formatMigration);
    });
}

function formatMigration({ migrations, granted_to }: { migrations: string[]; granted_to: string | undefined }): string {
  const schema = migrations.length === 0 ? 'The schema is up to date.' : `Applied: ${migrations.join(', ')}`;
  return granted_to === undefined ? schema : `${schema}\nGranted the service's privileges to: ${granted_to}`;
}

const KEY_COLUMNS = ['kid', 'state', 'created_at', 'activated_at', 'retired_at', 'revoked_at'] as const;
const REVOKE = 'revoke <kid>';
type SigningKeyAction = (operations: SigningKeyOperations, kid: string) => Promise<void>;
const KEY_ACTIONS: Readonly<Record<string, readonly [description: string, action: SigningKeyAction]>> = {
  list: ['List the signing keys.', () => Promise.resolve()],
  rotate: [
    'Sign with the next key. Tokens of the present one stay valid until they expire.',
    (operations) => operations.rotateActiveKey(COMMAND_LINE),
  ],
  'retire <kid>': [
    'Stop signing with this key. Its tokens stay valid until they expire.',
    (operations, kid) => operations.retireKey(kid, COMMAND_LINE),
  ],
  [REVOKE]: [
    'Refuse all tokens of this key at once, because it was stolen. Their users refresh, and go on.',
    (operations, kid) => operations.revokeKey(kid, COMMAND_LINE),
  ],
};

/** `platform-auth keys …`. Each command prints the state of all keys after it. */
export function addKeysCommands(root: Command): void {
  const description = 'Manage the keys that sign access tokens under ES256. "keys list" shows each <kid>.';
  const keys = addCommand(root, 'keys', description, { ...HELP, example: 'list' });
  for (const [signature, [summary, action]] of Object.entries(KEY_ACTIONS)) {
    const example = signature.includes('<kid>') ? 'sT3RrX8h2V0' : '';
    const added = addCommand(keys, signature, summary, { ...HELP, example });
    if (signature === REVOKE) addYes(added);
    added.action(async (...parameters: unknown[]) => {
      const command = parameters.at(-1) as Command;
      const [kid = ''] = command.args;
      if (signature === REVOKE) await createConfirm(command)(`All access tokens of key ${kid} will be refused.`);
      const { withServices } = await import('./database-services.js');
      const found = await withServices(readVariables(), async ({ signingKeys }) => {
        await action(signingKeys, kid);
        return signingKeys.listKeys();
      });
      const rows = found.map((key) => ({
        kid: key.kid,
        state: key.state,
        created_at: key.createdAt.toISOString(),
        activated_at: key.activatedAt?.toISOString() ?? null,
        retired_at: key.retiredAt?.toISOString() ?? null,
        revoked_at: key.revokedAt?.toISOString() ?? null,
      }));
      print(command, { keys: rows }, () => (rows.length > 0 ? formatTable(KEY_COLUMNS, rows) : NO_KEYS));
    });
  }
}

const NO_KEYS =
  'There are no signing keys. Under HS256 the service signs with SECRET_KEY; under ES256 it makes them when it starts.';

/** `platform-auth users import`: accounts of another system, with their password hashes; see docs/operations/users.md. */
export function addImportCommand(users: Command): void {
  addCommand(
    users,
    'import',
    'Import accounts with their password hashes. An account that exists stays as it is. Exit code 1 when a line was refused.',
    { ...TRANSFER_HELP, example: 'users.ndjson --dry-run' },
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
  addYes(addCommand(users, 'export', description, { ...TRANSFER_HELP, example: '--yes -o users.ndjson' }))
    .option('-o, --output <file>', 'a new file, which only its owner may read (default: standard output)')
    .action(async ({ output }: { output?: string }, command: Command) => {
      const warning = 'This writes the password hash of every account: a reader of it can guess passwords.';
      await createConfirm(command)(warning);
      const { exportUsers } = await import('./user-transfer.js');
      const exported = await exportUsers(output);
      const text = `Exported accounts: ${exported}.`;
      // When standard output holds the accounts, the text goes to standard error.
      if (output === undefined) say(text);
      else print(command, { exported }, () => text);
    });
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
