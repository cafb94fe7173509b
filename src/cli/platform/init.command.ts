import { Argument, Option, type Command } from 'commander';
import type { PlanReport } from './plan.js';
import type { PlatformMap } from './platform-map.js';
import { formatPair } from '../credential-state.js';
import { addYes, createConfirm, print } from '../terminal.js';
import { formatTable } from '../tables.js';
import { addCommand, DATABASE_EXAMPLE } from '../command-options.js';

export const URL_OF_OWN_FILE =
  'Connects to the database: DATABASE_URL is taken from the environment, or else from <dir>/auth.env.';
export const ENV_DIR = 'folder of the environment files: <service>.env for each service';
export const MAP_EXAMPLE = '--map platform.yaml --env-dir env';

type InitOptions = Readonly<{
  map: string;
  envDir: string;
  prune: boolean;
  rotate?: string | true;
  as?: string;
  dryRun: boolean;
}>;

/** `platform-auth init`: makes keys and environment files from the map; see docs/platform.md. */
export function addInitCommand(root: Command): void {
  const description =
    'Make the keys and the environment files of a platform from its map. Idempotent: safe to run again.';
  addYes(
    addCommand(root, 'init', description, {
      needs: `${URL_OF_OWN_FILE} If the database has live credentials, <dir>/auth.env must exist.
Asks before it rotates live keys of more than one service, makes a new SECRET_KEY, or revokes (--prune).`,
      variables: DATABASE_EXAMPLE,
      example: MAP_EXAMPLE,
    }),
  )
    .addOption(createMapOption())
    .requiredOption('--env-dir <dir>', ENV_DIR)
    .option('--prune', 'revoke the live credentials of pairs that are not in the map', false)
    .option('--rotate [service]', 'make new keys for the calls of this service, or of all; the old ones work for a day')
    .option('--as <name>', 'who acts, for the audit log (default: your user on this machine)')
    .option('--dry-run', 'print what would be done, and change nothing', false)
    .action(async ({ map: path, rotate, ...options }: InitOptions, command: Command) => {
      const map = await readMap(path);
      const { init } = await import('./init.js');
      const request = { map, ...options, rotate: rotate === true ? 'all' : rotate, confirm: createConfirm(command) };
      print(command, await init(request), formatReport);
    });
}

export function createMapOption(): Option {
  return new Option('--map <file>', 'the map of the platform: its services and their calls').makeOptionMandatory();
}

export async function readMap(path: string): Promise<PlatformMap> {
  const { readPlatformMap } = await import('./platform-map.js');
  return readPlatformMap(path);
}

/** @param compared what the command compares with the map */
export function formatReport(report: PlanReport, compared = 'Files, keys and schema'): string {
  const { dry_run: isPlan, migrations, pairs, files, strays, subscriptions, warnings } = report;
  const changed = files.filter((file) => file.changed);
  const isUnchanged =
    changed.length === 0 &&
    !pairs.some(changesRights) &&
    migrations.length + subscriptions.length === 0 &&
    !strays.some(({ revoked }) => revoked);
  const parts = [formatTable(['caller', 'target', 'action', 'app_id'], pairs)];
  parts.push(...listRightsParts(report));
  if (pairs.some(({ action }) => action === 'unknown'))
    parts.push(
      'Keys cannot be compared before the schema is up to date. To see their actions, run migrate, then this command again.',
    );
  const lost = pairs.filter(({ action }) => action === 'lost').map(formatPair);
  if (lost.length > 0)
    parts.push(
      `Keys that were not found here, and cannot be read again: ${lost.join(', ')}. They stay; --rotate-lost makes new ones.`,
    );
  const old = pairs.filter(({ action }) => action === 'old').map(formatPair);
  if (old.length > 0)
    parts.push(
      `Keys that were rotated, and whose old key was found here: ${old.join(', ')}. Install the new one by hand; --rotate makes another.`,
    );
  if (migrations.length > 0) parts.push(`Migrations ${isPlan ? 'to apply' : 'applied'}: ${migrations.join(', ')}`);
  if (changed.length > 0) parts.push([`Files ${isPlan ? 'to write' : 'written'}:`, ...changed.map(toLine)].join('\n'));
  if (strays.length > 0)
    parts.push(`${createHeading(strays, isPlan)}\n${formatTable(['caller', 'target', 'app_id'], strays)}`);
  if (warnings.length > 0) parts.push(warnings.map((warning) => `Warning: ${warning}`).join('\n'));
  if (isUnchanged)
    parts.push(`${lost.length + old.length === 0 ? `${compared} match the map. ` : ''}Nothing was changed.`);
  else if (isPlan) parts.push('This is the plan. Nothing was changed.');
  else if (isFirstRun(report)) parts.push('Done. Start the services, each with its file; then run doctor.');
  else if (changed.length > 0) parts.push('Done. Restart the services whose files were written.');
  else parts.push('Done.');
  return parts.join('\n\n');
}

/** Whether the map changes what a live credential may do. */
export function changesRights({ action, scopes, for_users }: PlanReport['pairs'][number]): boolean {
  return action !== 'issue' && (scopes !== undefined || for_users !== undefined);
}

/** The parts of the report on what pairs may do at their targets. */
function listRightsParts({ dry_run: isPlan, pairs, subscriptions }: PlanReport): string[] {
  const scoped = pairs.filter(({ action, scopes }) => action !== 'issue' && scopes !== undefined);
  const users = pairs.filter(({ action, for_users }) => action !== 'issue' && for_users !== undefined);
  const kept = pairs.filter((pair) => pair.kept_scopes !== undefined);
  const parts: readonly (readonly [heading: string, lines: readonly string[]])[] = [
    [`Scopes ${isPlan ? 'to change' : 'changed'}:`, scoped.map(toScopesLine)],
    ['Scopes that stay, because the map names none:', kept.map(toKeptLine)],
    [`Subscriptions ${isPlan ? 'to set' : 'set'}:`, subscriptions.map(toSubscriptionLine)],
    [`For users ${isPlan ? 'to change' : 'changed'}:`, users.map(toUsersLine)],
  ];
  return parts.flatMap(([heading, lines]) => (lines.length === 0 ? [] : [[heading, ...lines].join('\n')]));
}

/** On the first run no service can have used these files, so their keys are first keys and need no warning. */
function isFirstRun({ pairs, files }: PlanReport): boolean {
  // The first file is that of auth.
  return files[0]?.variables.includes('SECRET_KEY') === true && pairs.every(({ action }) => action === 'issue');
}

function toScopesLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.scopes?.join(', ') ?? 'all'}`;
}

function toKeptLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.kept_scopes?.join(', ')}`;
}

function toSubscriptionLine({ service, types }: PlanReport['subscriptions'][number]): string {
  return `  ${service}: ${types.join(', ')}`;
}

function toUsersLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.for_users ? 'yes' : 'no'}`;
}

function toLine({ file, variables }: PlanReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function createHeading(strays: PlanReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const outcome = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? outcome : 'still valid; --prune revokes them'}):`;
}

/** `platform-auth schema`: JSON Schemas, for editors and pipelines. */
export function addSchemaCommand(root: Command): void {
  addCommand(root, 'schema', 'Print the JSON Schema of the map, or of the variables of the service.', {
    needs: 'Connects to nothing.',
    example: 'map > platform.schema.json',
  })
    .addArgument(new Argument('<what>', 'what it is of').choices(['map', 'variables']))
    .action(async (what: 'map' | 'variables') => {
      const { SCHEMAS } = await import('./platform-map.js');
      process.stdout.write(`${JSON.stringify(SCHEMAS[what](), null, 2)}\n`);
    });
}
