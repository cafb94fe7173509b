import { Command } from 'commander';
import type { InitReport } from './init.js';
import { readPlatformMap } from './platform-map.js';
import { print, table, type Output } from '../terminal.js';

interface InitOptions extends Output {
  readonly map: string;
  readonly envDir: string;
  readonly prune: boolean;
  readonly dryRun: boolean;
}

/** `platform-auth init`: from the map to keys and environment files; see docs/platform.md. */
export function initCommand(): Command {
  return new Command('init')
    .description('Make the keys and the environment files of a platform from its map. Safe to run again.')
    .requiredOption('--map <file>', 'the map of the platform: its services and who calls whom')
    .requiredOption('--env-dir <dir>', 'where the environment files are: one for each service, <service>.env')
    .option('--prune', 'revoke the live credentials of pairs that are not in the map', false)
    .option('--dry-run', 'say what would be done, and touch nothing', false)
    .addHelpText(
      'after',
      `
Works on the database itself: DATABASE_URL is taken from the environment, or else from <dir>/auth.env.

Example:
  DATABASE_URL=postgresql://… platform-auth init --map platform.yaml --env-dir env`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<InitOptions>();
      const { envDir, prune, dryRun } = options;
      const map = readPlatformMap(options.map);
      const { init } = await import('./init.js');
      const report = await init({ map, envDir, prune, dryRun });
      print(options, report, asText);
    });
}

function asText(report: InitReport): string {
  const { dry_run: isPlan, migrations, pairs, files, strays } = report;
  const changed = files.filter((file) => file.changed);
  const isWhole = changed.length === 0 && migrations.length === 0 && !strays.some(({ revoked }) => revoked);
  const parts = [table(['caller', 'target', 'action', 'app_id'], pairs)];
  if (pairs.some(({ action }) => action === 'unknown'))
    parts.push(
      'Keys cannot be compared before the schema is up to date. Run migrate, then this again, to see their part.',
    );
  if (migrations.length > 0) parts.push(`Migrations ${isPlan ? 'to apply' : 'applied'}: ${migrations.join(', ')}`);
  if (changed.length > 0) parts.push([`Files ${isPlan ? 'to write' : 'written'}:`, ...changed.map(lineOf)].join('\n'));
  if (strays.length > 0) parts.push(`${headingOf(strays, isPlan)}\n${table(['caller', 'target', 'app_id'], strays)}`);
  if (isWhole) parts.push('Files, keys and schema fit the map. Nothing was changed.');
  else if (isPlan) parts.push('This is the plan. Nothing was changed.');
  else if (changed.length > 0) parts.push('Done. Restart the services whose files were written.');
  else parts.push('Done.');
  return parts.join('\n\n');
}

function lineOf({ file, variables }: InitReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function headingOf(strays: InitReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const fate = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? fate : 'still good; --prune revokes them'}):`;
}
