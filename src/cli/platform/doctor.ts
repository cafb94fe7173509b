// What is wrong with a platform: what `init` would do or leave behind, and what the running services answer. The
// findings are in the order in which an operator would repair them.
import { existsSync, statSync } from 'node:fs';
import { Clock } from '../../foundation/common/clock.js';
import { EnvFile } from '../../foundation/config/env-file.js';
import { InvalidEnvironmentError } from '../../foundation/config/environment.js';
import { secret } from '../../foundation/config/variable-kinds.js';
import { isMasterKeyShared, isSameSecret } from '../../foundation/crypto/secret.js';
import { readSchemaState, type SchemaState } from '../../foundation/database/migrate.js';
import { describeCause, describeDatabaseFailure } from '../failures.js';
import { announceIfSlow, CommandFailedError } from '../terminal.js';
import { withServices, type Services } from '../database/database-services.js';
import { callServices, type Checkup } from './doctor-calls.js';
import { checkKeys, checkPairsForUsers } from './doctor-keys.js';
import {
  createTokenRules,
  describeUnreadable,
  isSetIn,
  listSettings,
  listStrayClaims,
  isSecretKeyNeeded,
  readDatabaseVariables,
  readTokenRules,
  resolveEnvPath,
  type ServiceFile,
  type TokenRules,
} from './environment-files.js';
import { broken, warning, type PlatformFinding } from './finding.js';
import { readLiveCredentials } from './init.js';
import { makePlan, type LiveCredentials, type PlannedService } from './plan.js';
import { toCredentialVariables } from '../../foundation/common/names.js';
import { MASTER_KEY, NODE_TARGETS, OWN_NAME, type PlatformMap } from './platform-map.js';

const RUN_INIT = 'Run init, then restart the service.';
const REMOVE_LINE = 'Remove the line, and restart the service.';
const WRITABLE_BY_ALL = 0o002;
const MAX_SKEW_MS = 2_000;
/** The default grace of refresh tokens: a larger skew changes which tokens are accepted. */
const MAX_HARMLESS_SKEW_MS = 10_000;

/**
 * Checks files, database and running service, and changes nothing.
 * @param url of this service; undefined takes it from the map
 * @throws {CommandFailedError} when the folder does not exist
 */
export async function diagnose(
  { map, envDir, url }: { map: PlatformMap; envDir: string; url: string | undefined },
  clock = new Clock(),
): Promise<PlatformFinding[]> {
  if (!existsSync(envDir))
    throw new CommandFailedError(`The folder ${envDir} does not exist. Correct --env-dir.`, 'strange_env_dir');
  const found: PlatformFinding[] = [];
  if ((statSync(envDir).mode & WRITABLE_BY_ALL) !== 0)
    found.push(broken(envDir, 'Every user may replace the files in this folder.', `chmod 700 ${envDir}`));
  const files = readFiles(map, envDir, found);
  const own = files.get(OWN_NAME);
  const rules = readRules(map, own, found);
  const database = await announceIfSlow('Reading the database', readDatabase(own, clock, found));
  const plan = makePlan(map, files, database?.live, (service, file) => listSettings(service, file, own, rules));
  const canCompare = database && database.live !== undefined;
  const checkup = { url: url?.replace(/\/$/, '') ?? rules.url, now: clock.now(), rules, own, plan, canCompare };
  for (const planned of plan.services) found.push(...checkFile(planned, checkup, map));
  if (database) found.push(...checkDatabase(database));
  found.push(...(await announceIfSlow('Calling the services', callServices(checkup))));
  found.push(...checkPairsForUsers(plan, rules));
  found.push(...checkKeys(plan, database?.live?.items ?? [], checkup.now));
  return found;
}

function readFiles(map: PlatformMap, envDir: string, found: PlatformFinding[]): Map<string, EnvFile> {
  const files = new Map<string, EnvFile>();
  for (const { name } of map.services) {
    try {
      const file = EnvFile.read(resolveEnvPath(envDir, name));
      files.set(name, file);
      const remedy = `chmod 600 ${file.path}. If another user may have read it, replace its keys.`;
      if (file.isOpenToOthers)
        found.push(broken(`${name}.env`, `Other users may read or write the file (mode ${file.mode}).`, remedy));
    } catch (error) {
      const { what, remedy } = describeUnreadable(`${name}.env`, error);
      found.push(broken(`${name}.env`, what, remedy));
    }
  }
  return files;
}

function readRules(map: PlatformMap, own: EnvFile | undefined, found: PlatformFinding[]): TokenRules {
  try {
    return readTokenRules(map, own);
  } catch (error) {
    if (!(error instanceof InvalidEnvironmentError)) throw error;
    const remedy = 'Correct it, and run doctor again: what depends on it was checked as if it were not set.';
    found.push(broken(`${OWN_NAME}.env`, `${error.problems.join('; ')}.`, remedy));
    return createTokenRules(map);
  }
}

interface DatabaseView {
  readonly schema: SchemaState;
  /** Undefined while migrations are missing, because the query may name columns that do not exist. */
  readonly live: LiveCredentials | undefined;
  /** How far the clock of this machine is ahead of PostgreSQL's; negative when it is behind. */
  readonly aheadMs: number;
}

async function readDatabase(
  own: EnvFile | undefined,
  clock: Clock,
  found: PlatformFinding[],
): Promise<DatabaseView | undefined> {
  try {
    const variables = readDatabaseVariables(own);
    const schema = await readSchemaState(variables.DATABASE_URL);
    const read = async (services: Services): Promise<DatabaseView> => {
      const before = clock.now().getTime();
      const databaseTime = await services.databaseClock.now();
      const middle = (before + clock.now().getTime()) / 2;
      const live = schema.pending.length > 0 ? undefined : await readLiveCredentials(services);
      return { schema, live, aheadMs: middle - databaseTime.getTime() };
    };
    return await withServices(variables, read, clock);
  } catch (error) {
    const [, , next = 'Correct DATABASE_URL in auth.env.'] = describeDatabaseFailure(error) ?? [];
    const remedy = `${next} Everything that needs the database was not checked.`;
    found.push(broken('database', `The database cannot be used: ${describeCause(error)}.`, remedy));
    return undefined;
  }
}

function* checkFile(planned: PlannedService, checkup: Checkup, map: PlatformMap): Generator<PlatformFinding> {
  const { service, file, settings } = planned;
  const where = `${service.name}.env`;
  const credentials = service.calls.flatMap((target) => Object.values(toCredentialVariables(target)));
  const required = [...Object.keys(settings), ...credentials];
  if (!file.exists) {
    if (required.length > 0)
      yield broken(where, 'The file is missing.', 'Is --env-dir right? If so, run init, then restart the service.');
    return;
  }
  const missing = required.filter((name) => !isSetIn(file, name));
  if (missing.length > 0) yield broken(where, `Not set: ${missing.join(', ')}.`, RUN_INIT);
  for (const [name, value] of Object.entries(settings)) {
    const held = file.get(name);
    if (held === undefined) continue;
    const weakness = /^(SECRET_KEY|ADMIN_API_KEY)$/.test(name) ? secret.safeParse(held).error?.issues[0] : undefined;
    if (weakness) {
      const remedy = 'Remove the line and run init, which generates a new one. Then restart the service.';
      yield broken(where, `${name} ${weakness.message}.`, remedy);
    }
    if (value !== undefined && !isSameSecret(held, value)) yield describeDifference(planned, name, value);
  }
  yield* checkSharedSecrets(planned, checkup, map);
  yield* checkLeftovers(planned, checkup, map);
}

/**
 * A service with another SERVICE_NAME refuses its callers; with another secret or other claims it refuses every access
 * token.
 */
function describeDifference({ service }: PlannedService, name: string, value: string): PlatformFinding {
  const where = `${service.name}.env`;
  if (name === NODE_TARGETS) return warning(where, `${name} is not what the map says (${value}).`, RUN_INIT);
  if (name.startsWith('SECRET_KEY')) return broken(where, `${name} is not that of ${OWN_NAME}.env.`, RUN_INIT);
  if (!service.urls.some(({ variable }) => variable === name))
    return broken(where, `${name} is not ${value}: what its callers present is refused.`, RUN_INIT);
  const remedy = 'Correct the map if the file is right, and run init: it writes what the map says.';
  return warning(where, `${name} is not what the map says (${value}).`, remedy);
}

/** Finds secrets of auth in files that must not hold them. */
function* checkSharedSecrets({ service, file }: PlannedService, { own, rules }: Checkup, map: PlatformMap) {
  const where = `${service.name}.env`;
  const isOwn = service.name === OWN_NAME;
  const [key, ownKey] = [file.get('SECRET_KEY'), own?.get('SECRET_KEY')];
  if (!isSecretKeyNeeded(service, rules) && key !== undefined && ownKey !== undefined && isSameSecret(key, ownKey)) {
    const [what, remedy] =
      rules.algorithm === 'ES256'
        ? [
            `only ${OWN_NAME} needs under ES256.`,
            'Remove the line and restart the service. When no file holds it any more, rotate it (docs/operations/keys.md).',
          ]
        : [
            'can sign access tokens, although the map says that it does not verify any.',
            'Remove the line, or set verifies_access_tokens in the map.',
          ];
    yield warning(where, `It holds the SECRET_KEY, which ${what}`, remedy);
  }
  const [masterKey, ownMasterKey] = [file.get(MASTER_KEY), own?.get(MASTER_KEY)];
  if (!isOwn && masterKey !== undefined && ownMasterKey !== undefined && isSameSecret(masterKey, ownMasterKey))
    yield broken(
      where,
      `It holds the MASTER_KEY, which only ${OWN_NAME} may have.`,
      'Remove the line and restart the service. Then rotate it (docs/operations/keys.md).',
    );
  if (
    isOwn &&
    hasSharedMasterKey(file) &&
    map.services.some((each) => each !== service && isSecretKeyNeeded(each, rules))
  )
    yield warning(
      where,
      'There is no MASTER_KEY apart from the SECRET_KEY, or one of their former values is shared: a service that verifies access tokens can make login challenges, which stand for a password.',
      'Give it one, and end its rotation (docs/operations/keys.md, Rotate MASTER_KEY).',
    );
  // When a rotation of SECRET_KEY ends, the previous key is left in the files of the other services.
  if (file.get('SECRET_KEY_PREVIOUS') !== undefined && own?.get('SECRET_KEY_PREVIOUS') === undefined)
    yield warning(where, `It holds a SECRET_KEY_PREVIOUS that ${OWN_NAME}.env does not.`, REMOVE_LINE);
}

/** Finds lines that the operator has to remove, because `init` removes none. */
function* checkLeftovers({ service, file }: PlannedService, { rules }: Checkup, map: PlatformMap) {
  const where = `${service.name}.env`;
  const isOwn = service.name === OWN_NAME;
  // Keys that `init` issues for calls to auth name it by OWN_NAME; a service with another SERVICE_NAME refuses them
  // all.
  if (isOwn && (file.get('SERVICE_NAME') ?? OWN_NAME) !== OWN_NAME) {
    const what = `SERVICE_NAME is not ${OWN_NAME}, the target of the keys that other services hold for this one.`;
    yield broken(where, what, REMOVE_LINE);
  }
  if (isOwn && file.get(NODE_TARGETS) !== undefined && !service.nodeTargets) {
    const what = `${NODE_TARGETS} restricts new nodes, and the map has no targets of nodes.`;
    yield warning(where, what, 'Remove the line and restart the service, or write the targets into the map.');
  }
  if (isOwn && file.get('CONSOLE') === 'on' && file.get('INTERNAL_PORT') === undefined) {
    const what = 'The console is on PORT: every client of the public routes reaches its login.';
    yield warning(where, what, 'Set INTERNAL_PORT, which serves it instead, and keep that port off the internet.');
  }
  for (const variable of listStrayClaims(service, file, rules)) {
    const what = `${variable} is not what ${OWN_NAME} writes into access tokens: all of them are refused.`;
    yield broken(where, what, REMOVE_LINE);
  }
  for (const { name } of map.services.filter((target) => !service.calls.includes(target.name))) {
    const left = Object.values(toCredentialVariables(name)).filter((variable) => file.get(variable));
    const what = `It holds ${left.join(' and ')}, and the map lists no call to ${name}.`;
    if (left.length > 0) yield warning(where, what, 'Remove them, or add the call to the map.');
  }
}

/** Whether other services hold the key from which auth derives its own ones. */
function hasSharedMasterKey(own: ServiceFile): boolean {
  return isMasterKeyShared({
    secretKey: own.get('SECRET_KEY'),
    secretKeyPrevious: own.get('SECRET_KEY_PREVIOUS'),
    masterKey: own.get(isSetIn(own, MASTER_KEY) ? MASTER_KEY : 'SECRET_KEY'),
    masterKeyPrevious: own.get('MASTER_KEY_PREVIOUS'),
  });
}

function* checkDatabase({ schema: { pending, unknown }, aheadMs }: DatabaseView): Generator<PlatformFinding> {
  if (pending.length > 0) {
    const remedy = 'Run migrate, then doctor again. No key was compared or looked up.';
    yield broken('database', `Migrations are missing: ${pending.join(', ')}.`, remedy);
  }
  if (unknown.length > 0) {
    const what = `A newer version of the service has migrated it: ${unknown.join(', ')}.`;
    yield warning('database', what, 'Use the version of this program that the service has.');
  }
  const skewMs = Math.abs(aheadMs);
  if (skewMs < MAX_SKEW_MS) return;
  const report = skewMs < MAX_HARMLESS_SKEW_MS ? warning : broken;
  const skew = `${Math.round(skewMs / 1_000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'}`;
  const remedy = 'Synchronise both with the same time source (NTP): tokens and overlaps end by the clock.';
  yield report('clock', `This machine is ${skew} the database.`, remedy);
}
