import { Clock } from '../../common/clock.js';
import { checkLoggingService, checkCredentials } from './doctor.calls.js';
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
  checkAddresses,
  checkServiceName,
  readExistingFiles,
  checkWeakSecrets,
} from './doctor.files.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';
import { announceIfSlow } from '../terminal.js';

/** In the order in which an operator would repair. */
const CHECKS: readonly Check[] = [
  checkFileModes,
  checkMissingVariables,
  checkWeakSecrets,
  checkSecretKeys,
  checkServiceName,
  checkAddresses,
  checkLeftoverCredentials,
  checkSchema,
  checkClock,
  checkCredentials,
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
  const database = await announceIfSlow('Reading the database', readDatabase(own, clock));
  const mappedUrl = map.services.find(({ name }) => name === OWN_NAME)?.url ?? '';
  const at = (url ?? mappedUrl).replace(/\/$/, '');
  const checkup: Checkup = { map, envDir, url: at, now: clock.now(), files, database: database.view };
  const found = [...findings, ...database.findings];
  for (const check of CHECKS)
    found.push(...(await announceIfSlow('Calling the services', Promise.resolve(check(checkup)))));
  return found;
}
