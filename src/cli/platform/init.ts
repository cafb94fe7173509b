import { mkdirSync } from 'node:fs';
import { userInfo } from 'node:os';
import { COMMAND_LINE, type Actor } from '../../access/actor.js';
import type { AppCredential, AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { Clock } from '../../common/clock.js';
import type { EnvFile } from '../../config/env-file.js';
import { DEFAULT_OVERLAP_HOURS } from '../../config/limits.js';
import { secret } from '../../config/variable-kinds.js';
import { ADMIN_KEY_PREFIX, generateKey } from '../../crypto/key-format.js';
import { generateSecret } from '../../crypto/secret.js';
import { withClient } from '../../database/connection-check.js';
import { withAdvisoryLock, LOCKS } from '../../database/locks.js';
import { readSchemaState } from '../../database/migrate.js';
import { describeCause } from '../failures.js';
import { CommandFailedError, announceIfSlow, say, type Confirm } from '../terminal.js';
import { migrateWatched, withServices, type Services } from './database-services.js';
import { isSetIn, readDatabaseVariables, readEnvFile, readEnvFiles, readTokenRules } from './environment-files.js';
import {
  addRotations,
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
  /** Make new keys for the calls of this service, or of all; the former ones work during the overlap. */
  readonly rotate?: string | undefined;
  /** Who acts, for the audit log. Default: the user of the operating system. */
  readonly as?: string | undefined;
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
  readonly pairs: {
    caller: string;
    target: string;
    action: PairAction;
    app_id: string | null;
    /** When they change; null: all. */
    scopes?: readonly string[] | null;
  }[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
}

/**
 * Makes database, credentials and environment files match the map. Idempotent: when a run is killed or a file cannot be
 * written, the next run completes it, because a credential counts only once its caller's file holds the key.
 * @throws {CommandFailedError} with the cause, and with what was undone
 */
export async function init(request: InitRequest, clock = new Clock()): Promise<InitReport> {
  const { map, envDir, dryRun, prune } = request;
  const own = readEnvFile(envDir, OWN_NAME);
  const variables = readDatabaseVariables(own);
  const rules = readTokenRules(map, own);
  const databaseUrl = variables.DATABASE_URL;
  // Before anything is changed: a file that cannot be read stops the whole run.
  readEnvFiles(map, envDir);
  const actor = { ...COMMAND_LINE, operator: request.as ?? readSystemUser() };
  const { pending, isEmpty } = await readSchemaState(databaseUrl);
  if (!isEmpty) await refuseStrangeFolder(envDir, databaseUrl);
  const plan = (live: readonly AppCredential[] | undefined): Plan => {
    const files = readEnvFiles(map, envDir);
    refuseWeakSecret(files.get(OWN_NAME));
    const planned = makePlan(map, files, live, rules, { databaseUrl, secretKey: generateSecret() });
    return request.rotate === undefined ? planned : addRotations(planned, request.rotate);
  };
  if (dryRun) {
    // Missing migrations may add columns that the query names.
    const readLive = async ({ credentials }: Services) => credentials.listLiveAppCredentials();
    const isOld = pending.length > 0;
    const live = isEmpty ? [] : isOld ? undefined : await withServices(variables, readLive, clock);
    return applyPlan(plan(live), prune, pending);
  }
  mkdirSync(envDir, { recursive: true, mode: FOLDER_MODE });
  const migrations = await announceIfSlow('Bringing the schema up to date', migrateWatched(databaseUrl));
  const apply =
    (lockLost: AbortSignal) =>
    async ({ credentials }: Services): Promise<InitReport> => {
      const planned = plan(await credentials.listLiveAppCredentials());
      const acts = listDestruction(planned, prune);
      if (acts.length > 0) await request.confirm(`This would ${acts.join(', and ')}.`);
      return applyPlan(planned, prune, migrations, { credentials, lockLost, actor });
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

/** @returns the numeric id for a user without an entry, such as that of a container */
function readSystemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.());
  }
}

/** @throws {CommandFailedError} when the file holds a SECRET_KEY that the service would refuse */
function refuseWeakSecret(own: EnvFile | undefined): void {
  const weakness = secret.optional().safeParse(own?.get('SECRET_KEY')).error?.issues[0];
  if (own && weakness)
    throw new CommandFailedError(
      `SECRET_KEY in ${own.path} ${weakness.message}. ` +
        'Remove the line to have a new one generated; access tokens signed with the old one become invalid.',
    );
}

/** The run that holds the lock. */
interface Run {
  readonly credentials: AppCredentialsService;
  readonly actor: Actor;
  /** Then it issues no more keys, because another run may do so; it still revokes undelivered ones. */
  readonly lockLost: AbortSignal;
}

/** @param run undefined: a dry run, which changes the files in memory only */
async function applyPlan(plan: Plan, prune: boolean, migrations: string[], run?: Run): Promise<InitReport> {
  const report: InitReport = { dry_run: run === undefined, migrations, files: [], pairs: [], strays: [] };
  for (const planned of plan.services) {
    const { file, service } = planned;
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, deliver(planned, run))));
    report.files.push({ file: `${service.name}.env`, changed: file.needsWriting, variables: file.changes });
  }
  if (prune && run) await revokeAll(plan.strays, run);
  report.strays.push(...plan.strays.map(({ id, caller, target }) => ({ caller, target, app_id: id, revoked: prune })));
  return report;
}

/** The root key of this service has the form of its keys, which scanners and `platform-auth leaked` recognise. */
function generateValue(service: string, name: string): string {
  return service === OWN_NAME && name === 'ADMIN_API_KEY' ? generateKey(ADMIN_KEY_PREFIX) : generateSecret();
}

/** Issues the keys of one caller and writes its file. When the file cannot be written, the issued keys are revoked. */
async function deliver({ service, file, settings, pairs }: PlannedService, run?: Run): Promise<InitReport['pairs']> {
  const heading = `# ${service.name}. Written by platform-auth init, which keeps your own lines.`;
  const issued: IssuedPair[] = [];
  const rotated: string[] = [];
  const delivered: InitReport['pairs'] = [];
  try {
    for (const [name, value] of Object.entries(settings))
      if (value !== undefined || !isSetIn(file, name)) file.set(name, value ?? generateValue(service.name, name));
    // Before its keys are issued: a rerun recognises the folder by the file of this service.
    if (run && service.name === OWN_NAME && !file.exists) file.write(heading);
    if (run && pairs.some(({ action }) => action === 'issue' || action === 'rotate')) file.rehearseWrite();
    for (const pair of pairs) {
      const { caller, target, action, newScopes } = pair;
      const { id, key } = run ? await carryOut(pair, run) : { id: pair.credential?.id, key: undefined };
      if (run && action === 'issue' && id !== undefined) issued.push({ caller, target, id });
      if (run && action === 'rotate') rotated.push(`${caller} → ${target}`);
      const names = credentialVariables(target);
      if (id !== undefined || action === 'issue') file.set(names.id, id ?? PLACEHOLDER);
      if (action === 'issue' || action === 'rotate') file.set(names.key, key ?? PLACEHOLDER);
      delivered.push({
        caller,
        target,
        action,
        app_id: id ?? null,
        ...(newScopes !== undefined && { scopes: newScopes }),
      });
    }
    if (run && file.needsWriting) file.write(heading);
    return delivered;
  } catch (error) {
    const outcome = issued.length > 0 && run ? await revokeIssued(issued, run) : 'No credential was issued for it.';
    const loss =
      rotated.length > 0
        ? `The new keys of ${rotated.join(', ')} are lost; the old ones work for ${DEFAULT_OVERLAP_HOURS} hours.\n`
        : '';
    throw new CommandFailedError(
      `${file.path} could not be written: ${describeCause(error)}.\n${outcome}\n${loss}` +
        'Files written before remain valid. Remove the cause and run init again: it completes the rest.',
    );
  }
}

/** What stands for a new id or key in a dry run. */
const PLACEHOLDER = 'to-be-generated';
type IssuedPair = Readonly<{ caller: string; target: string; id: string }>;

/** @returns the id of the pair's credential, if it has one now, and its key if that is new */
async function carryOut(
  { caller, target, action, credential, newScopes }: PlannedPair,
  { credentials, lockLost, actor }: Run,
): Promise<{ id: string | undefined; key: string | undefined }> {
  if (action === 'issue') {
    lockLost.throwIfAborted();
    const pair = { caller, target, expiresAt: null, scopes: newScopes ?? null };
    const issued = await credentials.issueAppCredential(pair, actor);
    return { id: issued.credential.id, key: issued.key };
  }
  if (credential && newScopes !== undefined) {
    lockLost.throwIfAborted();
    await credentials.updateScopes(credential.id, newScopes, actor);
  }
  if (action !== 'rotate' || !credential) return { id: credential?.id, key: undefined };
  lockLost.throwIfAborted();
  const { key } = await credentials.keys.rotateKey(credential.id, DEFAULT_OVERLAP_HOURS, actor);
  return { id: credential.id, key };
}

/** Revokes at the same time, so that all wait for the replicas once. @throws the first failure, after the last attempt */
async function revokeAll(revoked: readonly { readonly id: string }[], { credentials, actor }: Run): Promise<void> {
  const attempts = await Promise.allSettled(revoked.map(({ id }) => credentials.keys.revokeKey(id, actor)));
  const failure = attempts.find((attempt) => attempt.status === 'rejected');
  if (failure) throw failure.reason;
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeIssued(issued: readonly IssuedPair[], run: Run): Promise<string> {
  const pairs = issued.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    await revokeAll(issued, run);
    return `The credentials issued for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials issued for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}
