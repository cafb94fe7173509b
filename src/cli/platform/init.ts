import { mkdirSync } from 'node:fs';
import type { Client } from 'pg';
import { Clock } from '../../common/clock.js';
import type { Variables } from '../../config/environment.js';
import { DEFAULT_OVERLAP_HOURS } from '../../config/limits.js';
import { secret } from '../../config/variable-kinds.js';
import { generateSecret } from '../../crypto/secret.js';
import { withAdvisoryLock, LOCKS } from '../../database/locks.js';
import { withClient } from '../../database/connection-check.js';
import { readSchemaState } from '../../database/migrate.js';
import { withAppKeys } from './app-keys.js';
import {
  createIssuer,
  deliver,
  DRY_RUN_ISSUER,
  type DeliveredPair,
  type Issuer,
  type SharedSettings,
} from './init.delivery.js';
import { listDestruction, makePlan, type Plan } from './init.plan.js';
import { databaseVariables, isSetIn, readEnvFile, readEnvFiles } from './platform-files.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';
import { readTokenRules, type TokenRules } from './verifier-variables.js';
import type { Confirm } from '../confirm.js';
import { CommandFailedError, announceIfSlow, say } from '../terminal.js';
import { migrateWatched } from '../watched-migration.js';

const FOLDER_MODE = 0o700;
/** The columns are those of the first schema, so that no migration has to run before. */
const COUNT_LIVE = `SELECT count(*)::int AS live FROM app_credentials
  WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`;

export interface InitRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** Revoke the live credentials of pairs that are not in the map. */
  readonly prune: boolean;
  /** Report what would be done, and change neither the database nor a file. */
  readonly dryRun: boolean;
  /** Asked before keys of several services are rotated, and before a credential is revoked. */
  readonly confirm: Confirm;
}

/** What was done, or would be done. Holds no secret. */
export interface InitReport {
  readonly dry_run: boolean;
  readonly migrations: string[];
  readonly files: { file: string; changed: boolean; variables: string[] }[];
  readonly pairs: DeliveredPair[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
}

/**
 * Makes database, credentials and environment files match the map. Idempotent: when a run is killed or a file cannot be
 * written, the next run completes it, because a credential counts only once its caller's file holds the key.
 * @throws {CommandFailedError} with the cause, and with what was undone
 */
export async function init(request: InitRequest, clock = new Clock()): Promise<InitReport> {
  const { map, envDir, dryRun } = request;
  const own = readEnvFile(envDir, OWN_NAME);
  const variables = databaseVariables(own);
  const rules = readTokenRules(map, own);
  const databaseUrl = variables.DATABASE_URL;
  // Before anything is changed: a file that cannot be read stops the whole run.
  readEnvFiles(map, envDir);
  const { pending, isEmpty } = await readSchemaState(databaseUrl);
  if (!isEmpty) await refuseStrangeFolder(envDir, databaseUrl);
  if (dryRun) {
    const live = isEmpty ? [] : await readLive(pending, variables, clock);
    const plan = makePlan(map, readEnvFiles(map, envDir), live);
    return applyPlan({ ...request, rules, databaseUrl }, plan, DRY_RUN_ISSUER, pending);
  }
  mkdirSync(envDir, { recursive: true, mode: FOLDER_MODE });
  const migrations = await announceIfSlow('Bringing the schema up to date', migrateWatched(databaseUrl));
  const run = async (lockLost: AbortSignal): Promise<InitReport> =>
    withAppKeys(variables, clock, async ({ credentials }) => {
      const plan = makePlan(map, readEnvFiles(map, envDir), await credentials.listLive());
      const issuer = createIssuer(credentials, DEFAULT_OVERLAP_HOURS, lockLost);
      return applyPlan({ ...request, rules, databaseUrl }, plan, issuer, migrations);
    });
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

/** @returns undefined while migrations are missing: they may add columns that the query names */
async function readLive(pending: string[], variables: Variables, clock: Clock) {
  if (pending.length > 0) return undefined;
  return withAppKeys(variables, clock, async ({ credentials }) => credentials.listLive());
}

/**
 * A folder that was never used with this database is most likely a typing error, and init would replace every key.
 * Counts before it looks for the file, because another run writes that file before it mints a key.
 */
async function refuseStrangeFolder(envDir: string, databaseUrl: string): Promise<void> {
  let live = 0;
  await withClient(databaseUrl, async (client: Client) => {
    live = (await client.query<{ live: number }>(COUNT_LIVE)).rows[0]?.live ?? 0;
  });
  const own = readEnvFile(envDir, OWN_NAME);
  if (live === 0 || own.exists) return;
  throw new CommandFailedError(
    `${own.path} does not exist, but the database has ${live} live app credentials. Is --env-dir right? Nothing was changed.\n` +
      `If the file is lost, write DATABASE_URL, SECRET_KEY, ADMIN_API_KEY and AUDIT_SEAL_KEY of the running service into ${own.path} (mode 0600), and run init again.`,
    'strange_env_dir',
  );
}

/** @throws {CommandFailedError} when it is not confirmed; keys and files are unchanged then */
async function confirmDestruction(plan: Plan, { prune, confirm }: InitRequest): Promise<void> {
  const acts = listDestruction(plan, prune);
  if (acts.length > 0) await confirm(`This would ${acts.join(', and ')}.`);
}

async function applyPlan(
  request: InitRequest & { readonly rules: TokenRules; readonly databaseUrl: string },
  plan: Plan,
  issuer: Issuer,
  migrations: string[],
): Promise<InitReport> {
  const { dryRun, prune, rules, databaseUrl } = request;
  const report: InitReport = { dry_run: dryRun, migrations, files: [], pairs: [], strays: [] };
  if (!dryRun) await confirmDestruction(plan, request);
  const shared = { rules, ...settleSecretKeys(plan, databaseUrl) };
  for (const planned of plan.services) {
    const { file, service } = planned;
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, deliver(planned, shared, issuer, dryRun))));
    report.files.push({ file: `${service.name}.env`, changed: file.needsWriting, variables: file.changes });
  }
  for (const { id, caller, target } of plan.strays) {
    if (prune) await issuer.revoke(id);
    report.strays.push({ caller, target, app_id: id, revoked: prune });
  }
  return report;
}

/** @returns SECRET_KEY and SECRET_KEY_PREVIOUS of this service's file; a new SECRET_KEY where it has none */
function settleSecretKeys(plan: Plan, databaseUrl: string): Pick<SharedSettings, 'secretKey' | 'previousSecretKey'> {
  const own = plan.services.find(({ service }) => service.name === OWN_NAME)?.file;
  const secretKey = own?.get('SECRET_KEY') ?? generateSecret();
  const checked = secret.safeParse(secretKey);
  if (!checked.success)
    throw new CommandFailedError(
      `SECRET_KEY in ${own?.path ?? ''} ${checked.error.issues[0]?.message ?? 'is not usable'}. ` +
        'Remove the line to have a new one generated; access tokens signed with the old one become invalid.',
    );
  if (own && !isSetIn(own, 'DATABASE_URL')) own.set('DATABASE_URL', databaseUrl);
  return { secretKey, previousSecretKey: own?.get('SECRET_KEY_PREVIOUS') };
}
