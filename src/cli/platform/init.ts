import { mkdirSync } from 'node:fs';
import type { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { Clock } from '../../common/clock.js';
import { COMMAND_LINE } from '../../access/actor.js';
import type { Variables } from '../../config/environment.js';
import { secret } from '../../config/variable-kinds.js';
import { generateSecret } from '../../crypto/secret.js';
import { withAdvisoryLock } from '../../database/advisory-lock.js';
import { LOCKS } from '../../database/locks.js';
import { readSchemaState } from '../../database/migrate.js';
import { withAppKeys } from './app-keys.js';
import { makePlan, type PairAction, type Plan, type PlannedPair, type PlannedService } from './init.plan.js';
import {
  databaseVariables,
  isSetIn,
  needsAdminKey,
  needsSecretKey,
  readEnvFile,
  readEnvFiles,
  toMessage,
} from './platform-files.js';
import { credentialVariables, OWN_NAME, type PlatformMap } from './platform-map.js';
import { CommandFailedError, announceIfSlow, say } from '../terminal.js';
import { migrateWatched } from '../watched-migration.js';

const FOLDER_MODE = 0o700;
const PLACEHOLDER = 'to-be-made';

export interface InitRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** Revoke the live credentials of pairs that are not in the map. */
  readonly prune: boolean;
  /** Report what would be done, and change neither the database nor a file. */
  readonly dryRun: boolean;
}

/** What was done, or would be done. Holds no secret. */
export interface InitReport {
  readonly dry_run: boolean;
  readonly migrations: string[];
  readonly files: { file: string; changed: boolean; variables: string[] }[];
  readonly pairs: { caller: string; target: string; action: PairAction; app_id: string | null }[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
}

/** Issues keys: from the database, or placeholders in a dry run. */
interface Issuer {
  mint(caller: string, target: string): Promise<{ id: string; key: string }>;
  rotate(id: string): Promise<string>;
  revoke(id: string): Promise<unknown>;
}

/**
 * Makes database, credentials and environment files match the map. Idempotent: when a run is killed or a file cannot be
 * written, the next run completes it, because a credential counts only once its caller's file holds the key.
 * @throws {CommandFailedError} with the cause, and with what was undone
 */
export async function init(request: InitRequest, clock = new Clock()): Promise<InitReport> {
  const { map, envDir, dryRun } = request;
  const variables = databaseVariables(readEnvFile(envDir, OWN_NAME));
  const databaseUrl = variables.DATABASE_URL;
  // Before anything is changed: a file that cannot be read stops the whole run.
  readEnvFiles(map, envDir);
  if (dryRun) {
    const { pending, isEmpty } = await readSchemaState(databaseUrl);
    const live = isEmpty ? [] : await readLive(pending, variables, clock);
    return applyPlan(request, makePlan(map, readEnvFiles(map, envDir), live), DRY_RUN_ISSUER, pending, databaseUrl);
  }
  mkdirSync(envDir, { recursive: true, mode: FOLDER_MODE });
  const migrations = await announceIfSlow('Bringing the schema up to date', migrateWatched(databaseUrl));
  const run = async (lockLost: AbortSignal): Promise<InitReport> =>
    withAppKeys(variables, clock, async ({ credentials, environment }) => {
      const plan = makePlan(map, readEnvFiles(map, envDir), await credentials.listLive());
      const issuer = createIssuer(credentials, environment.keyOverlapHours, lockLost);
      return applyPlan(request, plan, issuer, migrations, databaseUrl);
    });
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

/** @returns undefined while migrations are missing: they may add columns that the query names */
async function readLive(pending: string[], variables: Variables, clock: Clock) {
  if (pending.length > 0) return undefined;
  return withAppKeys(variables, clock, async ({ credentials }) => credentials.listLive());
}

async function applyPlan(
  request: InitRequest,
  plan: Plan,
  issuer: Issuer,
  migrations: string[],
  databaseUrl: string,
): Promise<InitReport> {
  const { dryRun, prune } = request;
  const report: InitReport = { dry_run: dryRun, migrations, files: [], pairs: [], strays: [] };
  const secretKey = settleSecretKey(plan, databaseUrl);
  for (const planned of plan.services) {
    const { file, service } = planned;
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, deliver(planned, secretKey, issuer, dryRun))));
    report.files.push({ file: `${service.name}.env`, changed: file.needsWriting, variables: file.changes });
  }
  for (const { id, caller, target } of plan.strays) {
    if (prune) await issuer.revoke(id);
    report.strays.push({ caller, target, app_id: id, revoked: prune });
  }
  return report;
}

/** @returns the key that signs access tokens: the one in the own file, or a new one */
function settleSecretKey(plan: Plan, databaseUrl: string): string {
  const own = plan.services.find(({ service }) => service.name === OWN_NAME)?.file;
  const secretKey = own?.get('SECRET_KEY') ?? generateSecret();
  const checked = secret.safeParse(secretKey);
  if (!checked.success)
    throw new CommandFailedError(
      `SECRET_KEY in ${own?.path ?? ''} ${checked.error.issues[0]?.message ?? 'is not usable'}. ` +
        'Remove the line to have a new one generated; access tokens signed with the old one become invalid.',
    );
  if (own && !isSetIn(own, 'DATABASE_URL')) own.set('DATABASE_URL', databaseUrl);
  return secretKey;
}

/** Issues the keys of one caller and writes its file. When the file cannot be written, the minted keys are revoked. */
async function deliver(
  { service, file, pairs }: PlannedService,
  secretKey: string,
  issuer: Issuer,
  dryRun: boolean,
): Promise<InitReport['pairs']> {
  const minted: (PlannedPair & { appId: string })[] = [];
  const delivered: InitReport['pairs'] = [];
  try {
    if (needsSecretKey(service)) file.set('SECRET_KEY', secretKey);
    if (needsAdminKey(service) && file.get('ADMIN_API_KEY') === undefined) file.set('ADMIN_API_KEY', generateSecret());
    for (const { variable, url } of service.urls) file.set(variable, url);
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
    if (!dryRun && file.needsWriting)
      file.write(`# ${service.name}. Written by platform-auth init, which keeps your own lines.`);
    return delivered;
  } catch (error) {
    throw new CommandFailedError(
      `${file.path} could not be written: ${toMessage(error)}.\n${await revokeMinted(minted, issuer)}\n` +
        'Files written before remain valid. Remove the cause and run init again: it completes the rest.',
    );
  }
}

async function issue({ caller, target, action, appId }: PlannedPair, issuer: Issuer) {
  if (action === 'mint' || appId === undefined) return issuer.mint(caller, target);
  return { id: appId, key: action === 'rotate' ? await issuer.rotate(appId) : undefined };
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeMinted(minted: readonly (PlannedPair & { appId: string })[], issuer: Issuer): Promise<string> {
  if (minted.length === 0) return 'No credential was minted for it.';
  const pairs = minted.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    for (const { appId } of minted) await issuer.revoke(appId);
    return `The credentials minted for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials minted for it could not be revoked (${toMessage(error)}); their keys are lost: ${pairs}.`;
  }
}

/** Once the lock is lost it issues no more keys, because another run may do so; it still revokes undelivered ones. */
function createIssuer(credentials: AppCredentialsService, overlapHours: number, lockLost: AbortSignal): Issuer {
  return {
    mint: async (caller, target) => {
      lockLost.throwIfAborted();
      const { credential, key } = await credentials.mint(caller, target, null, COMMAND_LINE);
      return { id: credential.id, key };
    },
    rotate: async (id) => {
      lockLost.throwIfAborted();
      return (await credentials.rotate(id, overlapHours, COMMAND_LINE)).key;
    },
    revoke: (id) => credentials.revoke(id, COMMAND_LINE),
  };
}

const DRY_RUN_ISSUER: Issuer = {
  mint: () => Promise.resolve({ id: PLACEHOLDER, key: PLACEHOLDER }),
  rotate: () => Promise.resolve(PLACEHOLDER),
  revoke: () => Promise.resolve(),
};
