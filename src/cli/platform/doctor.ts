import { existsSync } from 'node:fs';
import { Clock } from '../../common/clock.js';
import { InvalidEnvironmentError } from '../../config/environment.js';
import { EnvFile } from '../../config/env-file.js';
import {
  checkAdminKey,
  checkLoggingService,
  checkCredentials,
  checkPublishedKeys,
  type Finding,
  type DatabaseView,
  type Checkup,
  type Check,
  RUN_INIT,
  listServicesOnFile,
  listPairsOnFile,
  isOverlapOpen,
  isLongUnused,
} from './doctor-calls.js';
import { OWN_NAME, type PlatformMap, credentialVariables } from './platform-map.js';
import {
  createDefaultRules,
  readTokenRules,
  type TokenRules,
  databaseVariables,
  describeUnreadable,
  isSetIn,
  listRequiredVariables,
  needsSecretKey,
  resolveEnvPath,
  listStrayClaims,
  listVerifierSettings,
} from './environment-files.js';
import { announceIfSlow, CommandFailedError } from '../output.js';
import { readSchemaState } from '../../database/migrate.js';
import { isExpiringSoon, UNUSED_DAYS } from '../attention.js';
import { withAppKeys } from './database-services.js';
import { holdsKey, findLive } from './init-plan.js';
import { describeCause, describeDatabaseFailure } from '../failures.js';
import { secret } from '../../config/variable-kinds.js';
import { isSameSecret } from '../../crypto/secret.js';

/** In the order in which an operator would repair. */
const CHECKS: readonly Check[] = [
  checkFileModes,
  checkMissingVariables,
  checkWeakSecrets,
  checkSecretKeys,
  checkPreviousKeys,
  checkServiceName,
  checkAddresses,
  checkVerifierSettings,
  checkLeftoverCredentials,
  checkSchema,
  checkClock,
  checkCredentials,
  checkAdminKey,
  checkPublishedKeys,
  checkOverlaps,
  checkStrayPairs,
  checkUnusedKeys,
  checkExpiringKeys,
  checkLoggingService,
];

export interface DoctorRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** The address of this service; that of the map when undefined. */
  readonly url: string | undefined;
}

/**
 * Checks files, database and running service, and changes none of them.
 * @throws {CommandFailedError} when the folder does not exist
 */
export async function diagnose({ map, envDir, url }: DoctorRequest, clock = new Clock()): Promise<Finding[]> {
  if (!existsSync(envDir))
    throw new CommandFailedError(`The folder ${envDir} does not exist. Correct --env-dir.`, 'strange_env_dir');
  const { files, findings } = readExistingFiles(map, envDir);
  const own = files.get(OWN_NAME);
  const { rules, findings: mistakes } = readRules(map, own);
  const database = await announceIfSlow('Reading the database', readDatabase(own, clock));
  const mappedUrl = map.services.find(({ name }) => name === OWN_NAME)?.url ?? '';
  const at = (url ?? mappedUrl).replace(/\/$/, '');
  const checkup: Checkup = { map, envDir, url: at, now: clock.now(), files, database: database.view, rules };
  const found = [...findings, ...mistakes, ...database.findings];
  for (const check of CHECKS)
    found.push(...(await announceIfSlow('Calling the services', Promise.resolve(check(checkup)))));
  return found;
}

function readRules(map: PlatformMap, own: EnvFile | undefined): { rules: TokenRules; findings: Finding[] } {
  try {
    return { rules: readTokenRules(map, own), findings: [] };
  } catch (error) {
    if (!(error instanceof InvalidEnvironmentError)) throw error;
    const remedy = 'Correct it, and run doctor again: what depends on it was checked as if it were not set.';
    const finding = {
      severity: 'broken',
      where: `${OWN_NAME}.env`,
      what: `${error.problems.join('; ')}.`,
      do: remedy,
    } as const;
    return { rules: createDefaultRules(map), findings: [finding] };
  }
}

const MAX_SKEW_MS = 2_000;
/** The default grace of refresh tokens: a larger skew changes which tokens are accepted. */
const MAX_HARMLESS_SKEW_MS = 10_000;

/** Reads the schema, the live credentials and the clock of the database. Changes nothing. */
export async function readDatabase(
  own: EnvFile | undefined,
  clock: Clock,
): Promise<{ view: DatabaseView | undefined; findings: Finding[] }> {
  try {
    const variables = databaseVariables(own);
    const schema = await readSchemaState(variables.DATABASE_URL);
    const view = await withAppKeys(variables, clock, async ({ credentials, databaseClock }) => {
      const before = clock.now().getTime();
      const databaseTime = await databaseClock.now();
      const middle = (before + clock.now().getTime()) / 2;
      const live = schema.pending.length > 0 ? undefined : await credentials.listLiveAppCredentials();
      return { schema, live, aheadMs: middle - databaseTime.getTime() };
    });
    return { view, findings: [] };
  } catch (error) {
    const what = `The database cannot be used: ${describeCause(error)}.`;
    const next = describeDatabaseFailure(error)?.next ?? 'Correct DATABASE_URL in auth.env.';
    const remedy = `${next} Everything that needs the database was not checked.`;
    return { view: undefined, findings: [{ severity: 'broken', where: 'database', what, do: remedy }] };
  }
}

export function checkSchema({ database }: Checkup): Finding[] {
  const { pending = [], unknown = [] } = database?.schema ?? {};
  const findings: Finding[] = [];
  const where = 'database';
  if (pending.length > 0)
    findings.push({
      severity: 'broken',
      where,
      what: `Migrations are missing: ${pending.join(', ')}.`,
      do: 'Run migrate, then doctor again. Keys were neither compared nor validated.',
    });
  if (unknown.length > 0)
    findings.push({
      severity: 'warning',
      where,
      what: `A newer version of the service has migrated it: ${unknown.join(', ')}.`,
      do: 'Use the version of this program that the service has.',
    });
  return findings;
}

export function checkClock({ database }: Checkup): Finding[] {
  const aheadMs = database?.aheadMs ?? 0;
  if (Math.abs(aheadMs) < MAX_SKEW_MS) return [];
  const seconds = Math.round(Math.abs(aheadMs) / 1_000);
  return [
    {
      severity: Math.abs(aheadMs) < MAX_HARMLESS_SKEW_MS ? 'warning' : 'broken',
      where: 'clock',
      what: `This machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the database.`,
      do: 'Synchronise both with the same time source (NTP): tokens and overlaps end by the clock.',
    },
  ];
}

export function checkOverlaps(checkup: Checkup): Finding[] {
  return listPairsOnFile(checkup).flatMap(({ caller, target, where, file }): Finding[] => {
    const credential = findLive(checkup.database?.live ?? [], caller, target);
    if (!credential || !isOverlapOpen(credential, checkup.now)) return [];
    const until = credential.previousKeyExpiresAt?.toISOString() ?? '';
    const isDelivered = holdsKey(file, credential);
    return [
      {
        severity: 'warning',
        where,
        what: isDelivered
          ? `The key was rotated and the new one was not used yet; the old one works until ${until}.`
          : `The key was rotated and the file does not hold the new one; the old one works until ${until}.`,
        do: isDelivered ? `Restart ${caller}, so that it reads its file again.` : RUN_INIT,
      },
    ];
  });
}

export function checkUnusedKeys({ database, now }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter((credential) => isLongUnused(credential, now))
    .map(({ caller, target, lastUsedAt }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: lastUsedAt
        ? `The key was last used on ${lastUsedAt.toISOString().slice(0, 10)}.`
        : `The key was not used once in more than ${UNUSED_DAYS} days.`,
      do: `If ${caller} no longer calls ${target}, remove the pair from the map and run init --prune.`,
    }));
}

export function checkExpiringKeys({ database, now }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter(({ expiresAt }) => isExpiringSoon({ expires_at: expiresAt }, now))
    .map(({ caller, target, expiresAt }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: `The credential expires at ${expiresAt?.toISOString() ?? ''}.`,
      do: 'After that, run init: it issues one that does not expire.',
    }));
}

export function checkStrayPairs({ map, database }: Checkup): Finding[] {
  return (database?.live ?? [])
    .filter(({ caller, target }) => !map.services.some(({ name, calls }) => name === caller && calls.includes(target)))
    .map(({ caller, target }) => ({
      severity: 'warning',
      where: `${caller} → ${target}`,
      what: 'There is a live credential for a pair that is not in the map.',
      do: 'Add the pair to the map, or run init --prune.',
    }));
}

const FIND_FILE = 'Is --env-dir right? If so, run init, then restart the service.';

/** Reads the files that exist; an unreadable file is a finding. */
export function readExistingFiles(
  map: PlatformMap,
  envDir: string,
): { files: Map<string, EnvFile>; findings: Finding[] } {
  const files = new Map<string, EnvFile>();
  const findings: Finding[] = [];
  for (const service of map.services) {
    const where = `${service.name}.env`;
    try {
      const file = EnvFile.read(resolveEnvPath(envDir, service.name));
      if (file.exists) files.set(service.name, file);
      else if (listRequiredVariables(service, createDefaultRules(map)).length > 0)
        findings.push({ severity: 'broken', where, what: 'The file is missing.', do: FIND_FILE });
    } catch (error) {
      const remedy = 'Replace it by a regular file that this user may read, or remove it, and run init.';
      findings.push({ severity: 'broken', where, what: `${describeUnreadable(where, error)}.`, do: remedy });
    }
  }
  return { files, findings };
}

export function checkFileModes(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup)
    .filter(({ file }) => file.isOpenToOthers)
    .map(({ file, where }) => ({
      severity: 'broken',
      where,
      what: `Other users may read or write the file (mode ${file.mode}).`,
      do: `chmod 600 ${file.path}. If another user may have read it, replace its keys.`,
    }));
}

export function checkMissingVariables(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const missing = listRequiredVariables(service, checkup.rules).filter((name) => !isSetIn(file, name));
    if (missing.length === 0) return [];
    return [{ severity: 'broken', where, what: `Not set: ${missing.join(', ')}.`, do: RUN_INIT }];
  });
}

export function checkWeakSecrets(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) => {
    const required = listRequiredVariables(service, checkup.rules);
    const held = ['SECRET_KEY', 'ADMIN_API_KEY'].filter((name) => required.includes(name));
    return held.flatMap((name): Finding[] => {
      const value = file.get(name);
      if (value === undefined) return [];
      const what = secret.safeParse(value).error?.issues[0]?.message;
      if (what === undefined) return [];
      const remedy = 'Remove the line and run init, which generates a new one. Then restart the service.';
      return [{ severity: 'broken', where, what: `${name} ${what}.`, do: remedy }];
    });
  });
}

/** Keys that init issues for this service name it by OWN_NAME; with another SERVICE_NAME it refuses them all. */
export function checkServiceName({ files }: Checkup): Finding[] {
  const name = files.get(OWN_NAME)?.get('SERVICE_NAME');
  if (name === undefined || name === OWN_NAME) return [];
  const what = `SERVICE_NAME is not ${OWN_NAME}, the target of the keys that other services hold for this one.`;
  const remedy = 'Remove the line, and restart the service.';
  return [{ severity: 'broken', where: `${OWN_NAME}.env`, what, do: remedy }];
}

/** Init removes nothing from a file: at the end of a rotation the previous key is left in the files of the others. */
export function checkPreviousKeys(checkup: Checkup): Finding[] {
  const own = checkup.files.get(OWN_NAME)?.get('SECRET_KEY_PREVIOUS');
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const held = file.get('SECRET_KEY_PREVIOUS');
    if (held === undefined && own !== undefined && needsSecretKey(service, checkup.rules))
      return [{ severity: 'broken', where, what: 'Not set: SECRET_KEY_PREVIOUS.', do: RUN_INIT }];
    if (held === undefined || (own !== undefined && isSameSecret(held, own))) return [];
    const what = `It holds a SECRET_KEY_PREVIOUS that ${OWN_NAME}.env does not.`;
    return [{ severity: 'warning', where, what, do: 'Remove the line, and restart the service.' }];
  });
}

/** A service that verifies access tokens with another key refuses all of them. */
export function checkSecretKeys(checkup: Checkup): Finding[] {
  const { rules } = checkup;
  const own = checkup.files.get(OWN_NAME)?.get('SECRET_KEY');
  if (own === undefined) return [];
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const held = file.get('SECRET_KEY');
    if (held === undefined || service.name === OWN_NAME) return [];
    const isSame = isSameSecret(held, own);
    if (needsSecretKey(service, rules) && !isSame)
      return [{ severity: 'broken', where, what: `SECRET_KEY is not that of ${OWN_NAME}.env.`, do: RUN_INIT }];
    if (needsSecretKey(service, rules) || !isSame) return [];
    if (rules.algorithm === 'ES256')
      return [
        {
          severity: 'warning',
          where,
          what: `It holds the SECRET_KEY, which only ${OWN_NAME} needs under ES256: it decrypts the signing keys.`,
          do: 'Remove the line and restart the service. When no file holds it any more, rotate it (docs/operations/keys.md).',
        },
      ];
    const what =
      'It holds the SECRET_KEY, which can sign access tokens, although the map says that it does not verify any.';
    return [{ severity: 'warning', where, what, do: 'Remove the line, or set verifies_access_tokens in the map.' }];
  });
}

export function checkAddresses(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) =>
    service.urls
      .filter(({ variable, url }) => file.get(variable) !== undefined && file.get(variable) !== url)
      .map(({ variable, url }) => ({
        severity: 'warning',
        where,
        what: `${variable} is not what the map says (${url}).`,
        do: 'Correct the map if the file is right, and run init: it writes what the map says.',
      })),
  );
}

/** With another name the service refuses its callers; with other claims, every access token. */
export function checkVerifierSettings(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }): Finding[] => {
    const different = listVerifierSettings(service, checkup.rules).filter(
      ({ variable, value }) => (file.get(variable) ?? value) !== value,
    );
    const stray = listStrayClaims(service, file, checkup.rules);
    return [
      ...different.map(({ variable, value }): Finding => {
        const what = `${variable} is not ${value}: what its callers present is refused.`;
        return { severity: 'broken', where, what, do: RUN_INIT };
      }),
      ...stray.map((variable): Finding => {
        const what = `${variable} is not what ${OWN_NAME} writes into access tokens: all of them are refused.`;
        return { severity: 'broken', where, what, do: 'Remove the line, and restart the service.' };
      }),
    ];
  });
}

/** Left behind when a pair is removed from the map: init removes nothing from a file. */
export function checkLeftoverCredentials(checkup: Checkup): Finding[] {
  return listServicesOnFile(checkup).flatMap(({ service, file, where }) =>
    checkup.map.services
      .filter(({ name }) => !service.calls.includes(name))
      .map(({ name }) => ({ name, left: Object.values(credentialVariables(name)).filter((left) => file.get(left)) }))
      .filter(({ left }) => left.length > 0)
      .map(({ name, left }) => ({
        severity: 'warning',
        where,
        what: `It holds ${left.join(' and ')}, and the map lists no call to ${name}.`,
        do: 'Remove them, or add the call to the map.',
      })),
  );
}
