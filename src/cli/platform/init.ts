import { mkdirSync } from 'node:fs';
import { COMMAND_LINE } from '../../access/actor.js';
import type { AppCredential, AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { Clock } from '../../common/clock.js';
import type { EnvFile } from '../../config/env-file.js';
import { DEFAULT_OVERLAP_HOURS } from '../../config/limits.js';
import { secret } from '../../config/variable-kinds.js';
import { generateSecret } from '../../crypto/secret.js';
import { withClient } from '../../database/connection-check.js';
import { withAdvisoryLock, LOCKS } from '../../database/locks.js';
import { readSchemaState } from '../../database/migrate.js';
import { describeCause } from '../failures.js';
import { CommandFailedError, announceIfSlow, say } from '../output.js';
import type { Confirm } from '../prompts.js';
import { migrateWatched, withServices, type Services } from './database-services.js';
import {
  isSetIn,
  readDatabaseVariables,
  readEnvFile,
  readEnvFiles,
  readTokenRules,
  type SharedSettings,
} from './environment-files.js';
import {
  listDestruction,
  makePlan,
  type Plan,
  type PairAction,
  type PlannedPair,
  type PlannedService,
} from './init-plan.js';
import { OWN_NAME, type PlatformMap, credentialVariables } from './platform-map.js';

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
  readonly pairs: { caller: string; target: string; action: PairAction; app_id: string | null }[];
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
  const variables = readDatabaseVariables(own);
  const rules = readTokenRules(map, own);
  const databaseUrl = variables.DATABASE_URL;
  // Before anything is changed: a file that cannot be read stops the whole run.
  readEnvFiles(map, envDir);
  const { pending, isEmpty } = await readSchemaState(databaseUrl);
  if (!isEmpty) await refuseStrangeFolder(envDir, databaseUrl);
  const plan = (live: readonly AppCredential[] | undefined): Plan => {
    const files = readEnvFiles(map, envDir);
    const shared = { rules, databaseUrl, ...settleSecretKeys(files.get(OWN_NAME)) };
    return makePlan(map, files, live, shared);
  };
  if (dryRun) {
    // Missing migrations may add columns that the query names.
    const readLive = async ({ credentials }: Services) => credentials.listLiveAppCredentials();
    const isOld = pending.length > 0;
    const live = isEmpty ? [] : isOld ? undefined : await withServices(variables, readLive, clock);
    return applyPlan(request, plan(live), DRY_RUN_ISSUER, pending);
  }
  mkdirSync(envDir, { recursive: true, mode: FOLDER_MODE });
  const migrations = await announceIfSlow('Bringing the schema up to date', migrateWatched(databaseUrl));
  const apply =
    (lockLost: AbortSignal) =>
    async ({ credentials }: Services): Promise<InitReport> => {
      const planned = plan(await credentials.listLiveAppCredentials());
      const acts = listDestruction(planned, request.prune);
      if (acts.length > 0) await request.confirm(`This would ${acts.join(', and ')}.`);
      return applyPlan(request, planned, createIssuer(credentials, lockLost), migrations);
    };
  const run = async (lockLost: AbortSignal) => withServices(variables, apply(lockLost), clock);
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

/**
 * A folder that was never used with this database is most likely a typing error, and init would replace every key.
 * Counts before it looks for the file, because another run writes that file before it issues a key.
 */
async function refuseStrangeFolder(envDir: string, databaseUrl: string): Promise<void> {
  let live = 0;
  await withClient(databaseUrl, async (client) => {
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

/** @returns SECRET_KEY and SECRET_KEY_PREVIOUS of this service's file; a new SECRET_KEY where it has none */
function settleSecretKeys(own: EnvFile | undefined): Pick<SharedSettings, 'secretKey' | 'previousSecretKey'> {
  const secretKey = own?.get('SECRET_KEY') ?? generateSecret();
  const checked = secret.safeParse(secretKey);
  if (!checked.success)
    throw new CommandFailedError(
      `SECRET_KEY in ${own?.path ?? ''} ${checked.error.issues[0]?.message ?? 'is not usable'}. ` +
        'Remove the line to have a new one generated; access tokens signed with the old one become invalid.',
    );
  return { secretKey, previousSecretKey: own?.get('SECRET_KEY_PREVIOUS') };
}

async function applyPlan(
  { dryRun, prune }: InitRequest,
  plan: Plan,
  issuer: Issuer,
  migrations: string[],
): Promise<InitReport> {
  const report: InitReport = { dry_run: dryRun, migrations, files: [], pairs: [], strays: [] };
  for (const planned of plan.services) {
    const { file, service } = planned;
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, deliver(planned, issuer, dryRun))));
    report.files.push({ file: `${service.name}.env`, changed: file.needsWriting, variables: file.changes });
  }
  if (prune) await revokeAll(plan.strays, issuer);
  report.strays.push(...plan.strays.map(({ id, caller, target }) => ({ caller, target, app_id: id, revoked: prune })));
  return report;
}

/** Issues the keys of one caller and writes its file. When the file cannot be written, the issued keys are revoked. */
async function deliver(
  { service, file, settings, pairs }: PlannedService,
  issuer: Issuer,
  dryRun: boolean,
): Promise<InitReport['pairs']> {
  const heading = `# ${service.name}. Written by platform-auth init, which keeps your own lines.`;
  const issued: (PlannedPair & { id: string })[] = [];
  const delivered: InitReport['pairs'] = [];
  try {
    for (const [name, value] of Object.entries(settings))
      if (value !== undefined || !isSetIn(file, name)) file.set(name, value ?? generateSecret());
    // Before its keys are issued: a rerun recognises the folder by the file of this service.
    if (!dryRun && service.name === OWN_NAME && !file.exists) file.write(heading);
    for (const pair of pairs) {
      const { caller, target, action, credential } = pair;
      if (action === 'issue') {
        const { id, key } = await issuer.issue(caller, target);
        issued.push({ ...pair, id });
        setCredential(file, target, id, key);
        delivered.push({ caller, target, action, app_id: dryRun ? null : id });
      } else {
        const id = credential?.id ?? null;
        if (id !== null) setCredential(file, target, id, action === 'rotate' ? await issuer.rotate(id) : undefined);
        delivered.push({ caller, target, action, app_id: id });
      }
    }
    if (!dryRun && file.needsWriting) file.write(heading);
    return delivered;
  } catch (error) {
    throw new CommandFailedError(
      `${file.path} could not be written: ${describeCause(error)}.\n${await revokeIssued(issued, issuer)}\n` +
        'Files written before remain valid. Remove the cause and run init again: it completes the rest.',
    );
  }
}

function setCredential(file: EnvFile, target: string, id: string, key: string | undefined): void {
  const names = credentialVariables(target);
  file.set(names.id, id);
  if (key !== undefined) file.set(names.key, key);
}

/** Revokes at the same time, so that all wait for the replicas once. @throws the first failure, after the last attempt */
async function revokeAll(credentials: readonly { readonly id: string }[], issuer: Issuer): Promise<void> {
  const attempts = await Promise.allSettled(credentials.map(({ id }) => issuer.revoke(id)));
  const failure = attempts.find((attempt) => attempt.status === 'rejected');
  if (failure) throw failure.reason;
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeIssued(issued: readonly (PlannedPair & { id: string })[], issuer: Issuer): Promise<string> {
  if (issued.length === 0) return 'No credential was issued for it.';
  const pairs = issued.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    await revokeAll(issued, issuer);
    return `The credentials issued for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials issued for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}

/** Issues keys: from the database, or placeholders in a dry run. */
interface Issuer {
  issue(caller: string, target: string): Promise<{ id: string; key: string }>;
  rotate(id: string): Promise<string>;
  revoke(id: string): Promise<unknown>;
}

/** Once the lock is lost it issues no more keys, because another run may do so; it still revokes undelivered ones. */
function createIssuer(credentials: AppCredentialsService, lockLost: AbortSignal): Issuer {
  return {
    issue: async (caller, target) => {
      lockLost.throwIfAborted();
      const pair = { caller, target, expiresAt: null };
      const { credential, key } = await credentials.issueAppCredential(pair, COMMAND_LINE);
      return { id: credential.id, key };
    },
    rotate: async (id) => {
      lockLost.throwIfAborted();
      return (await credentials.keys.rotateKey(id, DEFAULT_OVERLAP_HOURS, COMMAND_LINE)).key;
    },
    revoke: (id) => credentials.keys.revokeKey(id, COMMAND_LINE),
  };
}

const PLACEHOLDER = 'to-be-generated';
const DRY_RUN_ISSUER: Issuer = {
  issue: () => Promise.resolve({ id: PLACEHOLDER, key: PLACEHOLDER }),
  rotate: () => Promise.resolve(PLACEHOLDER),
  revoke: () => Promise.resolve(),
};
