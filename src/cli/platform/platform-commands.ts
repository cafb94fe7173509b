import { InvalidArgumentError, type Command } from 'commander';
import type { InitReport } from './init.js';
import type { PlatformMap } from './platform-map.js';
import { addYes, createConfirm, CommandFailedError, print } from '../terminal.js';
import { fitWidth, formatTable, wrapText } from '../tables.js';
import { httpUrl } from '../../config/variable-kinds.js';
import type { Finding } from './doctor-calls.js';
import { parseAuditRetentionDays, parseDatabaseUrl, readVariables } from '../../config/environment.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE, type Help } from '../command-options.js';

const URL_OF_OWN_FILE =
  'Connects to the database: DATABASE_URL is taken from the environment, or else from <dir>/auth.env.';
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
  addYes(
    addPlatformCommand(
      root,
      'init',
      'Make the keys and the environment files of a platform from its map. Idempotent: safe to run again.',
      {
        needs: `${URL_OF_OWN_FILE} If the database has live credentials, <dir>/auth.env must exist.
Asks before it rotates live keys of more than one service, makes a new SECRET_KEY, or revokes (--prune).`,
        variables: DATABASE_EXAMPLE,
        example: MAP_EXAMPLE,
      },
    ),
  )
    .option('--prune', 'revoke the live credentials of pairs that are not in the map', false)
    .option('--rotate [service]', 'make new keys for the calls of this service, or of all; the old ones work for a day')
    .option('--as <name>', 'who acts, for the audit log (default: your user on this machine)')
    .option('--dry-run', 'print what would be done, and change nothing', false)
    .action(async ({ map: path, rotate, ...options }: InitOptions, command: Command) => {
      const map = await readMap(path);
      const { init } = await import('./init.js');
      const request = { map, ...options, rotate: rotate === true ? 'all' : rotate, confirm: createConfirm(command) };
      print(command, await init(request), formatInitReport);
    });
}

function addPlatformCommand(root: Command, name: string, description: string, help: Help): Command {
  return addCommand(root, name, description, help)
    .requiredOption('--map <file>', 'the map of the platform: its services and their calls')
    .requiredOption('--env-dir <dir>', 'folder of the environment files: <service>.env for each service');
}

async function readMap(path: string): Promise<PlatformMap> {
  const { readPlatformMap } = await import('./platform-map.js');
  return readPlatformMap(path);
}

function formatInitReport(report: InitReport): string {
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
  // The first file is that of this service.
  return files[0]?.variables.includes('SECRET_KEY') === true && pairs.every(({ action }) => action === 'issue');
}

function toScopesLine({ caller, target, scopes }: InitReport['pairs'][number]): string {
  return `  ${caller} → ${target}: ${scopes?.join(', ') ?? 'all'}`;
}

function toLine({ file, variables }: InitReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function createHeading(strays: InitReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const outcome = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? outcome : 'still valid; --prune revokes them'}):`;
}

const WHAT = 'what is wrong, and what to do';
/** What the table takes besides the text: the first column and the borders. */
const TABLE_FRAME = 'severity'.length + 7;

type DoctorOptions = Readonly<{ map: string; envDir: string; url?: string; live: boolean }>;

/** `platform-auth doctor`: finds what is wrong with a platform and says what to do; see docs/platform.md. */
export function addDoctorCommand(root: Command): void {
  const description = 'Check files, keys, database and services of a platform. Exit code 1 when something is broken.';
  addPlatformCommand(root, 'doctor', description, {
    needs: `Changes nothing, but validates every key, which counts as its use. ${URL_OF_OWN_FILE}`,
    example: `${MAP_EXAMPLE} --url http://127.0.0.1:7701`,
  })
    .option('--url <url>', 'address of this service, if not the one in the map', parseUrl)
    .option('--live', 'also ask at the address of every other service of the map', false)
    .action(async ({ map: path, envDir, url, live }: DoctorOptions, command: Command) => {
      const map = await readMap(path);
      const { diagnose } = await import('./doctor.js');
      const findings = await diagnose({ map, envDir, url });
      const { askServices, formatRunning } = await import('./doctor-live.js');
      const running = live ? await askServices(map) : undefined;
      print(command, { findings, running }, () =>
        [formatFindings({ findings }), ...(running ? [formatRunning(running)] : [])].join('\n\n'),
      );
      const broken = findings.filter(({ severity }) => severity === 'broken').length;
      if (broken > 0) throw new CommandFailedError(`Broken: ${broken}.`, 'broken');
    });
}

const LIMIT = 'A variable that a process was started with overrides its file, and doctor does not see it.';

function formatFindings({ findings }: { findings: Finding[] }): string {
  if (findings.length === 0) return `No problems found.\n\n${LIMIT}`;
  const width = fitWidth(TABLE_FRAME);
  const rows = findings.map((finding) => ({
    severity: finding.severity,
    [WHAT]: [finding.where, ...wrapText(finding.what, width), ...wrapText(`→ ${finding.do}`, width)],
  }));
  const colour = (name: string, value: unknown) =>
    name !== 'severity' ? undefined : value === 'broken' ? ('red' as const) : ('yellow' as const);
  return `${formatTable(['severity', WHAT], rows, { drop: ['severity'], colour })}\n${LIMIT}`;
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
