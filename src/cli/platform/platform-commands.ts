import { Argument, InvalidArgumentError, Option, type Command } from 'commander';
import type { PlanReport } from './delivery.js';
import type { PlatformMap } from './platform-map.js';
import { formatPair } from '../credential-state.js';
import { AdminClient, readRemoteVariables } from '../remote/admin-client.js';
import { addYes, createConfirm, CommandFailedError, print } from '../terminal.js';
import { fitWidth, formatTable, wrapText } from '../tables.js';
import { httpUrl } from '../../config/variable-kinds.js';
import type { Finding } from './doctor-calls.js';
import { parseAuditRetentionDays, parseDatabaseUrl, readVariables } from '../../config/environment.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_ADMIN_KEY, NEEDS_DATABASE } from '../command-options.js';

const URL_OF_OWN_FILE =
  'Connects to the database: DATABASE_URL is taken from the environment, or else from <dir>/auth.env.';
const ENV_DIR = 'folder of the environment files: <service>.env for each service';
const MAP_EXAMPLE = '--map platform.yaml --env-dir env';

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

export function formatReport(report: PlanReport): string {
  const { dry_run: isPlan, migrations, pairs, files, strays } = report;
  const changed = files.filter((file) => file.changed);
  const scoped = pairs.filter(({ scopes }) => scopes !== undefined);
  const isUnchanged =
    changed.length === 0 && migrations.length === 0 && scoped.length === 0 && !strays.some(({ revoked }) => revoked);
  const parts = [formatTable(['caller', 'target', 'action', 'app_id'], pairs)];
  if (scoped.length > 0)
    parts.push([`Scopes ${isPlan ? 'to change' : 'changed'}:`, ...scoped.map(toScopesLine)].join('\n'));
  if (pairs.some(({ action }) => action === 'unknown'))
    parts.push(
      'Keys cannot be compared before the schema is up to date. To see their actions, run migrate, then this command again.',
    );
  const lost = pairs.filter(({ action }) => action === 'lost').map(formatPair);
  if (lost.length > 0)
    parts.push(
      `Keys that were not found here, and cannot be read again: ${lost.join(', ')}. They stay; --rotate-lost makes new ones.`,
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
function isFirstRun({ pairs, files }: PlanReport): boolean {
  // The first file is that of this service.
  return files[0]?.variables.includes('SECRET_KEY') === true && pairs.every(({ action }) => action === 'issue');
}

function toScopesLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.scopes?.join(', ') ?? 'all'}`;
}

function toLine({ file, variables }: PlanReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function createHeading(strays: PlanReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const outcome = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? outcome : 'still valid; --prune revokes them'}):`;
}

const WHAT = 'what is wrong, and what to do';
/** What the table takes besides the text: the first column and the borders. */
const TABLE_FRAME = 'severity'.length + 7;

type DoctorOptions = Readonly<{ map: string; envDir?: string; url?: string }>;

/** `platform-auth doctor`: finds what is wrong with a platform and says what to do; see docs/platform.md. */
export function addDoctorCommand(root: Command): void {
  const description = 'Check files, keys, database and services of a platform. Exit code 1 when something is broken.';
  addCommand(root, 'doctor', description, {
    needs: `Changes nothing, but validates every key, which counts as its use. ${URL_OF_OWN_FILE}
Without --env-dir it asks the service only, from any machine, and uses no key. ${NEEDS_ADMIN_KEY}`,
    example: `${MAP_EXAMPLE} --url http://127.0.0.1:7701`,
  })
    .addOption(createMapOption())
    .option('--env-dir <dir>', ENV_DIR)
    .option('--url <url>', 'address of this service, if not the one in the map', parseUrl)
    .action(async ({ map: path, envDir, url }: DoctorOptions, command: Command) => {
      const map = await readMap(path);
      const findings =
        envDir === undefined
          ? await diagnoseFromAfar(map, url)
          : await (await import('./doctor.js')).diagnose({ map, envDir, url });
      print(command, { findings }, (it) => formatFindings(it, envDir === undefined ? LIMIT_FROM_AFAR : LIMIT));
      const broken = findings.filter(({ severity }) => severity === 'broken').length;
      if (broken > 0) throw new CommandFailedError(`Broken: ${broken}.`, 'broken');
    });
}

const LIMIT = 'A variable that a process was started with overrides its file, and doctor does not see it.';

const LIMIT_FROM_AFAR = 'Neither the files nor the database were looked at, and no key was used: that needs --env-dir.';

async function diagnoseFromAfar(map: PlatformMap, given: string | undefined): Promise<Finding[]> {
  const variables = readRemoteVariables();
  const { diagnoseFromAfar: diagnose } = await import('./doctor-keys.js');
  const url = given ?? map.services[0]?.url;
  return diagnose(AdminClient.from(variables, url), { map, adminKey: variables.ADMIN_API_KEY });
}

function formatFindings({ findings }: { findings: Finding[] }, limit: string): string {
  if (findings.length === 0) return `No problems found.\n\n${limit}`;
  const width = fitWidth(TABLE_FRAME);
  const rows = findings.map((finding) => ({
    severity: finding.severity,
    [WHAT]: [finding.where, ...wrapText(finding.what, width), ...wrapText(`→ ${finding.do}`, width)],
  }));
  const colour = (name: string, value: unknown) =>
    name !== 'severity' ? undefined : value === 'broken' ? ('red' as const) : ('yellow' as const);
  return `${formatTable(['severity', WHAT], rows, { drop: ['severity'], colour })}\n${limit}`;
}

function parseUrl(text: string): string {
  if (!httpUrl.safeParse(text).success) throw new InvalidArgumentError('It must be an http(s) URL.');
  return text;
}

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
      const databaseUrl = parseDatabaseUrl(variables);
      const auditRetentionDays = parseAuditRetentionDays(variables);
      const { migrateWatched } = await import('./database-services.js');
      const report = { migrations: await migrateWatched(databaseUrl), granted_to: role };
      if (role !== undefined) {
        const { grantToService } = await import('../../database/grants.js');
        await grantToService(databaseUrl, role, auditRetentionDays);
      }
      print(command, report, formatMigration);
    });
}

function formatMigration({ migrations, granted_to }: { migrations: string[]; granted_to: string | undefined }): string {
  const schema = migrations.length === 0 ? 'The schema is up to date.' : `Applied: ${migrations.join(', ')}`;
  return granted_to === undefined ? schema : `${schema}\nGranted the service's privileges to: ${granted_to}`;
}

/** `platform-auth schema`: JSON Schemas, for editors and pipelines. */
export function addSchemaCommand(root: Command): void {
  addCommand(root, 'schema', 'Print the JSON Schema of the map, or of the variables of the service.', {
    needs: 'Connects to nothing.',
    example: 'map > platform.schema.json',
  })
    .addArgument(new Argument('<what>', 'what it is of').choices(['map', 'variables']))
    .action(async (what: 'map' | 'variables') => {
      const { SCHEMAS } = await import('./schemas.js');
      process.stdout.write(`${JSON.stringify(SCHEMAS[what](), null, 2)}\n`);
    });
}
