import { mkdirSync } from 'node:fs';
import type { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { Clock } from '../../common/clock.js';
import { COMMAND_LINE } from '../../audit/actor.js';
import type { Variables } from '../../config/environment.js';
import { secret } from '../../config/variable-kinds.js';
import { generateSecret } from '../../crypto/secret.js';
import { withAdvisoryLock } from '../../database/advisory-lock.js';
import { LOCKS } from '../../database/locks.js';
import { readSchemaState } from '../../database/migrate.js';
import { withAppKeys } from './app-keys.js';
import { planOf, type PairAction, type Plan, type PlannedPair, type PlannedService } from './init.plan.js';
import { databaseVariables, messageOf, needsAdminKey, needsSecretKey, readFile, readFiles } from './platform-files.js';
import { credentialVariables, OWN_NAME, type PlatformMap } from './platform-map.js';
import { CommandFailed, during, say } from '../terminal.js';
import { migrateWatched } from '../watched-migration.js';

const FOLDER_MODE = 0o700;
const TO_BE_MADE = 'to-be-made';

export interface InitRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** Revoke the live credentials of pairs that the map does not have. */
  readonly prune: boolean;
  /** Report what would be done, and touch neither the database nor a file. */
  readonly dryRun: boolean;
}

/** What was done, or would be. Holds no secret. */
export interface InitReport {
  readonly dry_run: boolean;
  readonly migrations: string[];
  readonly files: { file: string; changed: boolean; variables: string[] }[];
  readonly pairs: { caller: string; target: string; action: PairAction; app_id: string | null }[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
}

/** What keys come from: the database, or nowhere in a dry run. */
interface Issuer {
  mint(caller: string, target: string): Promise<{ id: string; key: string }>;
  rotate(id: string): Promise<string>;
  revoke(id: string): Promise<void>;
}

/**
 * Makes database, credentials and environment files fit the map. Whatever a run leaves undone, when it is killed or a
 * file cannot be written, the next one completes: a credential counts only once its caller's file holds the key.
 * @throws {CommandFailed} saying what is in the way and what became of it
 */
export async function init(request: InitRequest, clock = new Clock()): Promise<InitReport> {
  const { map, envDir, dryRun } = request;
  const variables = databaseVariables(readFile(envDir, OWN_NAME));
  const databaseUrl = variables.DATABASE_URL;
  // Before anything is made: what stands in the way of one file stops the whole run.
  readFiles(map, envDir);
  if (dryRun) {
    const { pending, isEmpty } = await readSchemaState(databaseUrl);
    const live = isEmpty ? [] : await liveOnce(pending, variables, clock);
    return carryOut(request, planOf(map, readFiles(map, envDir), live), rehearsal, pending, databaseUrl);
  }
  mkdirSync(envDir, { recursive: true, mode: FOLDER_MODE });
  const migrations = await during('Bringing the schema up to date', migrateWatched(databaseUrl));
  const run = async (lost: AbortSignal): Promise<InitReport> =>
    withAppKeys(variables, clock, async ({ credentials, environment }) => {
      const plan = planOf(map, readFiles(map, envDir), await credentials.listLive());
      const issuer = issuerOver(credentials, environment.keyOverlapHours, lost);
      return carryOut(request, plan, issuer, migrations, databaseUrl);
    });
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

/** @returns undefined while migrations are missing: columns that are asked for may be among what they make */
async function liveOnce(pending: string[], variables: Variables, clock: Clock) {
  if (pending.length > 0) return undefined;
  return withAppKeys(variables, clock, async ({ credentials }) => credentials.listLive());
}

async function carryOut(
  request: InitRequest,
  plan: Plan,
  issuer: Issuer,
  migrations: string[],
  databaseUrl: string,
): Promise<InitReport> {
  const { dryRun, prune } = request;
  const report: InitReport = { dry_run: dryRun, migrations, files: [], pairs: [], strays: [] };
  const secretKey = settleOwnFile(plan, databaseUrl);
  for (const planned of plan.services) {
    const { file, service } = planned;
    report.pairs.push(...(await during(`Writing ${file.path}`, deliver(planned, secretKey, issuer, dryRun))));
    report.files.push({ file: `${service.name}.env`, changed: file.needsWriting, variables: file.changes });
  }
  for (const { id, caller, target } of plan.strays) {
    if (prune) await issuer.revoke(id);
    report.strays.push({ caller, target, app_id: id, revoked: prune });
  }
  return report;
}

/** @returns the key that every verifier of access tokens needs, made once */
function settleOwnFile(plan: Plan, databaseUrl: string): string {
  const own = plan.services.find(({ service }) => service.name === OWN_NAME)?.file;
  const secretKey = own?.get('SECRET_KEY') ?? generateSecret();
  const sound = secret.safeParse(secretKey);
  if (!sound.success)
    throw new CommandFailed(
      `SECRET_KEY in ${own?.path ?? ''} ${sound.error.issues[0]?.message ?? 'is not usable'}. ` +
        'Take the line out to have a good one made; access tokens signed with the old one end.',
    );
  if (own?.get('DATABASE_URL') === undefined) own?.set('DATABASE_URL', databaseUrl);
  return secretKey;
}

/** The keys of one caller, and its file. Either the file holds every key that was minted for it, or none lives. */
async function deliver(
  { service, file, pairs }: PlannedService,
  secretKey: string,
  issuer: Issuer,
  dryRun: boolean,
): Promise<InitReport['pairs']> {
  const minted: (PlannedPair & { appId: string })[] = [];
  const done: InitReport['pairs'] = [];
  try {
    if (needsSecretKey(service)) file.set('SECRET_KEY', secretKey);
    if (needsAdminKey(service) && file.get('ADMIN_API_KEY') === undefined) file.set('ADMIN_API_KEY', generateSecret());
    for (const { variable, url } of service.urls) file.set(variable, url);
    for (const pair of pairs) {
      const { caller, target, action } = pair;
      if (action === 'unknown') {
        done.push({ caller, target, action, app_id: null });
        continue;
      }
      const issued = await issue(pair, issuer);
      if (action === 'mint') minted.push({ ...pair, appId: issued.id });
      const names = credentialVariables(target);
      file.set(names.id, issued.id);
      if (issued.key !== undefined) file.set(names.key, issued.key);
      done.push({ caller, target, action, app_id: dryRun && action === 'mint' ? null : issued.id });
    }
    if (!dryRun && file.needsWriting)
      file.write(`# ${service.name}. Made by platform-auth init, which keeps your own lines.`);
    return done;
  } catch (error) {
    throw new CommandFailed(
      `${file.path} could not be written: ${messageOf(error)}.\n${await takeBack(minted, issuer)}\n` +
        'What was written before stays good. Remove the cause and run init again: it does the rest.',
    );
  }
}

async function issue({ caller, target, action, appId }: PlannedPair, issuer: Issuer) {
  if (action === 'mint' || appId === undefined) return issuer.mint(caller, target);
  return { id: appId, key: action === 'rotate' ? await issuer.rotate(appId) : undefined };
}

/** Nobody has the keys of these credentials. */
async function takeBack(minted: readonly (PlannedPair & { appId: string })[], issuer: Issuer): Promise<string> {
  if (minted.length === 0) return 'No credential was minted for it.';
  const pairs = minted.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    for (const { appId } of minted) await issuer.revoke(appId);
    return `What was minted for it is revoked again: ${pairs}.`;
  } catch (error) {
    return `What was minted for it could not be revoked (${messageOf(error)}); nobody has the keys: ${pairs}.`;
  }
}

/** Without the lock it makes no more keys; what nobody will have it still revokes. */
function issuerOver(credentials: AppCredentialsService, overlapHours: number, lost: AbortSignal): Issuer {
  return {
    mint: async (caller, target) => {
      lost.throwIfAborted();
      const { credential, key } = await credentials.mint(caller, target, null, COMMAND_LINE);
      return { id: credential.id, key };
    },
    rotate: async (id) => {
      lost.throwIfAborted();
      return (await credentials.rotate(id, overlapHours, COMMAND_LINE)).key;
    },
    revoke: async (id) => {
      await credentials.revoke(id, COMMAND_LINE);
    },
  };
}

const rehearsal: Issuer = {
  mint: () => Promise.resolve({ id: TO_BE_MADE, key: TO_BE_MADE }),
  rotate: () => Promise.resolve(TO_BE_MADE),
  revoke: () => Promise.resolve(),
};
