import { Clock } from '../../common/clock.js';
import { InvalidEnvironmentError } from '../../config/environment.js';
import type { EnvFile } from '../../config/env-file.js';
import { checkAdminKey, checkLoggingService, checkCredentials, checkPublishedKeys } from './doctor.calls.js';
import type { Check, Checkup, Finding } from './doctor.checkup.js';
import {
  checkClock,
  checkExpiringKeys,
  checkOverlaps,
  checkSchema,
  checkStrayPairs,
  checkUnusedKeys,
  readDatabase,
} from './doctor.database.js';
import {
  checkSecretKeys,
  checkFileModes,
  checkLeftoverCredentials,
  checkMissingVariables,
  checkPreviousKeys,
  checkAddresses,
  checkServiceName,
  checkVerifierSettings,
  readExistingFiles,
  checkWeakSecrets,
} from './doctor.files.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';
import { createDefaultRules, readTokenRules, type TokenRules } from './verifier-variables.js';
import { announceIfSlow } from '../terminal.js';

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

/** Checks files, database and running service, and changes none of them. */
export async function diagnose({ map, envDir, url }: DoctorRequest, clock = new Clock()): Promise<Finding[]> {
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
