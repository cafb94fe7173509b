import { COMMAND_LINE, type Actor } from '../../foundation/access/actor.js';
import { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import { Clock } from '../../foundation/common/clock.js';
import type { EnvFile } from '../../foundation/config/env-file.js';
import { DEFAULT_OVERLAP_HOURS } from '../../foundation/config/limits.js';
import { secret } from '../../foundation/config/variable-kinds.js';
import { computeDigest, generateSecret, isSameDigest } from '../../foundation/crypto/secret.js';
import { withClient } from '../../foundation/database/connection-check.js';
import { withAdvisoryLock, LOCKS } from '../../foundation/database/locks.js';
import { readSchemaState } from '../../foundation/database/migrate.js';
import { readSystemUser } from '../command-options.js';
import { CommandFailedError, announceIfSlow, say, type Confirm } from '../terminal.js';
import { migrateWatched, withServices, type Services } from '../database/database-services.js';
import { listWarnings } from './doctor-keys.js';
import {
  createEnvFolder,
  listSettings,
  readDatabaseVariables,
  readEnvFile,
  readEnvFiles,
  readOwnVariables,
  readTokenRules,
} from './environment-files.js';
import {
  addRotations,
  carryOutPlan,
  listDestruction,
  makePlan,
  type CredentialStore,
  type LiveCredentials,
  type Plan,
  type PlanReport,
} from './plan.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';

/** Names only columns that every version of the schema has, because migrations may be pending when it runs. */
const COUNT_LIVE = `SELECT count(*)::int AS live FROM app_credentials
  WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`;

export interface InitRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** Revokes the live credentials of pairs that are not in the map. */
  readonly prune: boolean;
  /** Issues new keys for the calls of this service, or of `all`; the old keys stay valid during the overlap. */
  readonly rotate?: string | undefined;
  /** The actor in the audit log. Default: the user of the operating system. */
  readonly as?: string | undefined;
  /** Reports what it would do, and changes neither the database nor a file. */
  readonly dryRun: boolean;
  /** Asks the operator before keys of several services are rotated, and before a credential is revoked. */
  readonly confirm: Confirm;
}

/**
 * Makes database, credentials and environment files match the map. Idempotent: the next run completes an interrupted
 * one, because a credential counts only once its caller's file holds the key.
 * @throws {CommandFailedError} with the cause, and with what was undone
 */
export async function init(request: InitRequest, clock = new Clock()): Promise<PlanReport> {
  const { map, envDir, dryRun, prune } = request;
  const own = readEnvFile(envDir, OWN_NAME);
  // The life of new keys is a setting of the service, which need not run.
  const { APP_KEY_DAYS } = readOwnVariables(own, ['APP_KEY_DAYS']);
  const variables = { APP_KEY_DAYS, ...readDatabaseVariables(own) };
  const rules = readTokenRules(map, own);
  const databaseUrl = variables.DATABASE_URL;
  // Read before anything is changed, so that an unreadable file stops the whole run.
  readEnvFiles(map, envDir);
  const actor = { ...COMMAND_LINE, operator: request.as ?? readSystemUser() };
  const { pending, isEmpty } = await readSchemaState(databaseUrl);
  if (!isEmpty) await refuseStrangeFolder(envDir, databaseUrl);
  const fresh = { databaseUrl, secretKey: generateSecret() };
  const plan = (live: LiveCredentials | undefined): Plan => {
    const files = readEnvFiles(map, envDir);
    const own = files.get(OWN_NAME);
    refuseWeakSecret(own);
    const planned = makePlan(map, files, live, (service, file) => listSettings(service, file, own, rules, fresh));
    return request.rotate === undefined ? planned : addRotations(planned, request.rotate);
  };
  const carryOut = async (planned: Plan, migrations: readonly string[], store?: CredentialStore) =>
    carryOutPlan(planned, { program: 'init', prune, migrations, warnings: listWarnings(planned, rules) }, store);
  if (dryRun) {
    // Not read while migrations are pending, because the query may name columns that they add.
    const none: LiveCredentials = { items: [], subscriptions: new Map(), findKeyState: () => undefined };
    const isOld = pending.length > 0;
    const live = isEmpty ? none : isOld ? undefined : await withServices(variables, readLiveCredentials, clock);
    return carryOut(plan(live), pending);
  }
  createEnvFolder(envDir);
  const migrations = await announceIfSlow('Bringing the schema up to date', migrateWatched(databaseUrl));
  const apply =
    (lockLost: AbortSignal) =>
    async (services: Services): Promise<PlanReport> => {
      const planned = plan(await readLiveCredentials(services));
      const actions = listDestruction(planned, prune);
      if (actions.length > 0) await request.confirm(`This would ${actions.join(', and ')}.`);
      return carryOut(planned, migrations, createStore(services, actor, lockLost));
    };
  const run = async (lockLost: AbortSignal) => withServices(variables, apply(lockLost), clock);
  return withAdvisoryLock(databaseUrl, LOCKS.init, run, () => say('Another init is running; waiting for it to end …'));
}

type Stored = Pick<Services, 'credentials' | 'subscriptions'>;

export async function readLiveCredentials({ credentials, subscriptions }: Stored): Promise<LiveCredentials> {
  const live = await credentials.listLiveAppCredentials();
  const digests = new Map(live.map(({ id, keyDigest }) => [id, keyDigest]));
  // The previous key of an overlap counts as lost, because only the file of `init` could hold the current one.
  const findKeyState: LiveCredentials['findKeyState'] = ({ app_id }, key) => {
    const current = digests.get(app_id);
    return current !== undefined && isSameDigest(computeDigest(key), current) ? 'current' : undefined;
  };
  const items = live.map((credential) => AppCredentialResponse.from(credential));
  const types = (await subscriptions.listSubscriptions()).map((each) => [each.service, each.types] as const);
  return { items, subscriptions: new Map(types), findKeyState };
}

/** @param lockLost aborts when another run may issue keys: this run issues no more, but still revokes undelivered ones */
function createStore({ credentials, subscriptions }: Stored, actor: Actor, lockLost: AbortSignal): CredentialStore {
  return {
    issue: async (pair) => {
      lockLost.throwIfAborted();
      const { for_users: forUsers, ...named } = pair;
      const { credential, key } = await credentials.issueAppCredential({ ...named, forUsers }, actor);
      return { id: credential.id, key };
    },
    update: async (id, { scopes, for_users: forUsers }) => {
      lockLost.throwIfAborted();
      await credentials.updateAppCredential(id, { scopes, forUsers }, actor);
    },
    rotate: async ({ app_id, rotated_at }) => {
      lockLost.throwIfAborted();
      const rotatedAt = rotated_at === null ? null : new Date(rotated_at);
      return (
        await credentials.keys.rotateKey(app_id, { overlapHours: DEFAULT_OVERLAP_HOURS, ifRotatedAt: rotatedAt }, actor)
      ).key;
    },
    revoke: (ids) => credentials.keys.revokeKeys(ids, actor),
    subscribe: (service, types) => subscriptions.setSubscription(service, types, 'now', actor),
  };
}

/**
 * A folder that was never used with this database is most likely mistyped, and `init` would replace every key. Counts
 * before it looks for the file, because a concurrent run writes that file before it issues a key.
 */
async function refuseStrangeFolder(envDir: string, databaseUrl: string): Promise<void> {
  const { rows } = await withClient(databaseUrl, (client) => client.query<{ live: number }>(COUNT_LIVE));
  const live = rows[0]?.live ?? 0;
  const own = readEnvFile(envDir, OWN_NAME);
  if (live === 0 || own.exists) return;
  throw new CommandFailedError(
    `${own.path} does not exist, but the database has ${live} live app credentials. Is --env-dir right? Nothing was changed.\n` +
      `If the file is lost, write DATABASE_URL, SECRET_KEY, MASTER_KEY, ADMIN_API_KEY and AUDIT_SEAL_KEY of the running service into ${own.path} (mode 0600), and run init again.`,
    'strange_env_dir',
  );
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
