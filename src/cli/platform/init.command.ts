import { Command } from 'commander';
import type { InitReport } from './init.js';
import { OWN_NAME, readPlatformMap } from './platform-map.js';
import { addYes, createConfirm } from '../confirm.js';
import { formatTable } from '../table.js';
import { print, type Output } from '../terminal.js';

interface InitOptions extends Output {
  readonly map: string;
  readonly envDir: string;
  readonly prune: boolean;
  readonly dryRun: boolean;
}

/** `platform-auth init`: makes keys and environment files from the map; see docs/platform.md. */
export function createInitCommand(): Command {
  return addYes(new Command('init'))
    .description('Make the keys and the environment files of a platform from its map. Idempotent: safe to run again.')
    .requiredOption('--map <file>', 'the map of the platform: its services and their calls')
    .requiredOption('--env-dir <dir>', 'folder of the environment files: <service>.env for each service')
    .option('--prune', 'revoke the live credentials of pairs that are not in the map', false)
    .option('--dry-run', 'print what would be done, and change nothing', false)
    .addHelpText(
      'after',
      `
Connects to the database: DATABASE_URL is taken from the environment, or else from <dir>/auth.env. If the database has live credentials, <dir>/auth.env must exist.
Asks before it rotates live keys of more than one service, makes a new SECRET_KEY, or revokes (--prune).

Example:
  DATABASE_URL=postgresql://… platform-auth init --map platform.yaml --env-dir env`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<InitOptions>();
      const { envDir, prune, dryRun } = options;
      const map = readPlatformMap(options.map);
      const { init } = await import('./init.js');
      const report = await init({ map, envDir, prune, dryRun, confirm: createConfirm(command) });
      print(options, report, toText);
    });
}

function toText(report: InitReport): string {
  const { dry_run: isPlan, migrations, pairs, files, strays } = report;
  const changed = files.filter((file) => file.changed);
  const isUnchanged = changed.length === 0 && migrations.length === 0 && !strays.some(({ revoked }) => revoked);
  const parts = [formatTable(['caller', 'target', 'action', 'app_id'], pairs)];
  if (pairs.some(({ action }) => action === 'unknown'))
    parts.push(
      'Keys cannot be compared before the schema is up to date. To see their actions, run migrate, then this command again.',
    );
  if (migrations.length > 0) parts.push(`Migrations ${isPlan ? 'to apply' : 'applied'}: ${migrations.join(', ')}`);
  if (changed.length > 0) parts.push([`Files ${isPlan ? 'to write' : 'written'}:`, ...changed.map(toLine)].join('\n'));
  if (strays.length > 0)
    parts.push(`${createHeading(strays, isPlan)}\n${formatTable(['caller', 'target', 'app_id'], strays)}`);
  if (isUnchanged) parts.push('Files, keys and schema match the map. Nothing was changed.');
  else if (isPlan) parts.push('This is the plan. Nothing was changed.');
  else if (isFirstRun(report)) parts.push('Done. Start the services, each with its file; then run doctor.');
  else if (changed.length > 0) parts.push('Done. Restart the services whose files were written.');
  else parts.push('Done.');
  return parts.join('\n\n');
}

/** No service can have run with these files: they get their first keys. */
function isFirstRun({ pairs, files }: InitReport): boolean {
  const own = files.find(({ file }) => file === `${OWN_NAME}.env`);
  return own?.variables.includes('SECRET_KEY') === true && pairs.every(({ action }) => action === 'mint');
}

function toLine({ file, variables }: InitReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function createHeading(strays: InitReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const outcome = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? outcome : 'still valid; --prune revokes them'}):`;
}
