import { Clock } from '../../common/clock.js';
import { loggingAway, refusedPairs } from './doctor.calls.js';
import type { Check, Checkup, Finding } from './doctor.checkup.js';
import {
  clockSkew,
  endingKeys,
  openOverlaps,
  outdatedSchema,
  strayPairs,
  unusedKeys,
  viewDatabase,
} from './doctor.database.js';
import {
  differentSecretKeys,
  fileModes,
  leftCredentials,
  missingVariables,
  otherAddresses,
  otherOwnName,
  readWhatIsThere,
  weakSecrets,
} from './doctor.files.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';
import { during } from '../terminal.js';

/** In the order in which one would repair. */
const CHECKS: readonly Check[] = [
  fileModes,
  missingVariables,
  weakSecrets,
  differentSecretKeys,
  otherOwnName,
  otherAddresses,
  leftCredentials,
  outdatedSchema,
  clockSkew,
  refusedPairs,
  openOverlaps,
  strayPairs,
  unusedKeys,
  endingKeys,
  loggingAway,
];

export interface DoctorRequest {
  readonly map: PlatformMap;
  readonly envDir: string;
  /** Where this service answers; the map's address when unset. */
  readonly url: string | undefined;
}

/** Looks at files, database and running service, and changes none of them. */
export async function diagnose({ map, envDir, url }: DoctorRequest, clock = new Clock()): Promise<Finding[]> {
  const { files, findings } = readWhatIsThere(map, envDir);
  const own = files.get(OWN_NAME);
  const database = await during('Asking the database', viewDatabase(own, clock));
  const mapped = map.services.find(({ name }) => name === OWN_NAME)?.url ?? '';
  const at = (url ?? mapped).replace(/\/$/, '');
  const checkup: Checkup = { map, envDir, url: at, now: clock.now(), files, database: database.view };
  const found = [...findings, ...database.findings];
  for (const check of CHECKS) found.push(...(await during('Asking the services', Promise.resolve(check(checkup)))));
  return found;
}
