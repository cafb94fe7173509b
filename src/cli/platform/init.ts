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
import { withAppKeys, migrateWatched } from './database-services.js';
import {
  listDestruction,
  makePlan,
  type Plan,
  type PairAction,
  type PlannedPair,
  type PlannedService,
} from './init-plan.js';
import {
  databaseVariables,
  isSetIn,
  readEnvFile,
  readEnvFiles,
  readTokenRules,
  type TokenRules,
  needsAdminKey,
  needsSecretKey,
  listVerifierSettings,
} from './environment-files.js';
import { OWN_NAME, type PlatformMap, credentialVariables } from './platform-map.js';
import type { Confirm } from '../prompts.js';
import { CommandFailedError, announceIfSlow, say } from '../output.js';
import type { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { COMMAND_LINE } from '../../access/actor.js';
import { describeCause } from '../failures.js';

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
      const plan = makePlan(map, readEnvFiles(map, envDir), await credentials.listLiveAppCredentials());
      const issuer = createIssuer(credentials, DEFAULT_OVERLAP_HOURS, lockLost);
      return applyPlan({ ...request, rules, databaseUrl }, plan, issuer, migrations);
    });
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

/** @returns undefined while migrations are missing: they may add columns that the query names */
async function readLive(pending: string[], variables: Variables, clock: Clock) {
  if (pending.length > 0) return undefined;
  return withAppKeys(variables, clock, async ({ credentials }) => credentials.listLiveAppCredentials());
}

/**
 * A folder that was never used with this database is most likely a typing error, and init would replace every key.
 * Counts before it looks for the file, because another run writes that file before it issues a key.
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
  if (prune)
    await revokeAll(
      plan.strays.map(({ id }) => id),
      issuer,
    );
  report.strays.push(...plan.strays.map(({ id, caller, target }) => ({ caller, target, app_id: id, revoked: prune })));
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

const PLACEHOLDER = 'to-be-made';

/** Issues keys: from the database, or placeholders in a dry run. */
export interface Issuer {
  mint(caller: string, target: string): Promise<{ id: string; key: string }>;
  rotate(id: string): Promise<string>;
  revoke(id: string): Promise<unknown>;
}

export interface DeliveredPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  readonly app_id: string | null;
}

/** What this service shares with the others. */
export interface SharedSettings {
  readonly rules: TokenRules;
  readonly secretKey: string;
  /** During a rotation of the SECRET_KEY. */
  readonly previousSecretKey: string | undefined;
}

/** Issues the keys of one caller and writes its file. When the file cannot be written, the minted keys are revoked. */
export async function deliver(
  planned: PlannedService,
  shared: SharedSettings,
  issuer: Issuer,
  dryRun: boolean,
): Promise<DeliveredPair[]> {
  const { service, file, pairs } = planned;
  const minted: (PlannedPair & { appId: string })[] = [];
  const delivered: DeliveredPair[] = [];
  try {
    setSecrets(planned, shared);
    for (const { variable, url } of service.urls) file.set(variable, url);
    for (const { variable, value } of listVerifierSettings(service, shared.rules)) file.set(variable, value);
    // Before its keys are minted: a rerun recognises the folder by the file of this service.
    if (!dryRun && service.name === OWN_NAME && !file.exists) file.write(toHeading(service.name));
    for (const pair of pairs) {
      const { caller, target, action } = pair;
      if (action === 'unknown') {
        delivered.push({ caller, target, action, app_id: null });
        continue;
      }
      const issued = await issue(pair, issuer);
      if (action === 'mint') minted.push({ ...pair, appId: issued.id });
      const names = credentialVariables(target);
      file.set(names.id, issued.id);
      if (issued.key !== undefined) file.set(names.key, issued.key);
      delivered.push({ caller, target, action, app_id: dryRun && action === 'mint' ? null : issued.id });
    }
    if (!dryRun && file.needsWriting) file.write(toHeading(service.name));
    return delivered;
  } catch (error) {
    throw new CommandFailedError(
      `${file.path} could not be written: ${describeCause(error)}.\n${await revokeMinted(minted, issuer)}\n` +
        'Files written before remain valid. Remove the cause and run init again: it completes the rest.',
    );
  }
}

function setSecrets({ service, file }: PlannedService, { rules, secretKey, previousSecretKey }: SharedSettings): void {
  const isNew = service.name === OWN_NAME && file.get('SECRET_KEY') === undefined;
  if (needsSecretKey(service, rules)) {
    file.set('SECRET_KEY', secretKey);
    if (previousSecretKey !== undefined) file.set('SECRET_KEY_PREVIOUS', previousSecretKey);
  }
  // Without an AUDIT_SEAL_KEY, services that hold the SECRET_KEY could derive the key of the seals. Where the SECRET_KEY is
  // in use, a new one would not verify the seals made so far.
  if (isNew && !isSetIn(file, 'AUDIT_SEAL_KEY')) file.set('AUDIT_SEAL_KEY', generateSecret());
  if (needsAdminKey(service) && file.get('ADMIN_API_KEY') === undefined) file.set('ADMIN_API_KEY', generateSecret());
}

function toHeading(service: string): string {
  return `# ${service}. Written by platform-auth init, which keeps your own lines.`;
}

async function issue({ caller, target, action, appId }: PlannedPair, issuer: Issuer) {
  if (action === 'mint' || appId === undefined) return issuer.mint(caller, target);
  return { id: appId, key: action === 'rotate' ? await issuer.rotate(appId) : undefined };
}

/** Revokes at the same time, so that all wait for the replicas once. @throws the first failure, after the last attempt */
async function revokeAll(appIds: readonly string[], issuer: Issuer): Promise<void> {
  const attempts = await Promise.allSettled(appIds.map((appId) => issuer.revoke(appId)));
  const failure = attempts.find((attempt) => attempt.status === 'rejected');
  if (failure) throw failure.reason;
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeMinted(minted: readonly (PlannedPair & { appId: string })[], issuer: Issuer): Promise<string> {
  if (minted.length === 0) return 'No credential was minted for it.';
  const pairs = minted.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    await revokeAll(
      minted.map(({ appId }) => appId),
      issuer,
    );
    return `The credentials minted for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials minted for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}

/** Once the lock is lost it issues no more keys, because another run may do so; it still revokes undelivered ones. */
export function createIssuer(credentials: AppCredentialsService, overlapHours: number, lockLost: AbortSignal): Issuer {
  return {
    mint: async (caller, target) => {
      lockLost.throwIfAborted();
      const { credential, key } = await credentials.issueAppCredential(
        { caller, target, expiresAt: null },
        COMMAND_LINE,
      );
      return { id: credential.id, key };
    },
    rotate: async (id) => {
      lockLost.throwIfAborted();
      return (await credentials.keys.rotateKey(id, overlapHours, COMMAND_LINE)).key;
    },
    revoke: (id) => credentials.keys.revokeKey(id, COMMAND_LINE),
  };
}

export const DRY_RUN_ISSUER: Issuer = {
  mint: () => Promise.resolve({ id: PLACEHOLDER, key: PLACEHOLDER }),
  rotate: () => Promise.resolve(PLACEHOLDER),
  revoke: () => Promise.resolve(),
};
