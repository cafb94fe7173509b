import { Command } from 'commander';
import { readVariables } from '../config/environment.js';
import { parseAuditRetentionDays, parseDatabaseUrl } from '../config/single-variables.js';
import { NEEDS_DATABASE } from './needs.js';
import { print, type Output } from './terminal.js';

interface MigrateOptions extends Output {
  readonly grantTo?: string;
}

/** `platform-auth migrate`: applies missing migrations, as the service does when it starts. */
export function createMigrateCommand(): Command {
  return new Command('migrate')
    .description('Bring the database schema up to date.')
    .option('--grant-to <role>', 'grant this role the least privileges that the service needs; see docs/audit.md')
    .addHelpText(
      'after',
      `
${NEEDS_DATABASE}
With --grant-to, the role cannot drop a month of the audit log before AUDIT_RETENTION_DAYS: give the service the same value.

Example:
  DATABASE_URL=postgresql://owner:…@host/auth platform-auth migrate --grant-to auth_service`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<MigrateOptions>();
      const variables = readVariables();
      const databaseUrl = parseDatabaseUrl(variables);
      const auditRetentionDays = parseAuditRetentionDays(variables);
      const { migrateWatched } = await import('./watched-migration.js');
      const report = { migrations: await migrateWatched(databaseUrl), granted_to: options.grantTo };
      if (options.grantTo !== undefined) {
        const { grantToService } = await import('../database/grants.js');
        await grantToService(databaseUrl, { role: options.grantTo, auditRetentionDays });
      }
      print(options, report, toText);
    });
}

function toText({ migrations, granted_to }: { migrations: string[]; granted_to: string | undefined }): string {
  const schema = migrations.length === 0 ? 'The schema is up to date.' : `Applied: ${migrations.join(', ')}`;
  return granted_to === undefined ? schema : `${schema}\nGranted the service's privileges to: ${granted_to}`;
}
