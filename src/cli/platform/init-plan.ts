import type { AppCredential } from '../../app-credentials/app-credentials.service.js';
import { computeDigest, isSameDigest } from '../../crypto/secret.js';
import type { EnvFile } from '../../config/env-file.js';
import type { EnvFiles } from './environment-files.js';
import { credentialVariables, OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';

/**
 * keep: the file holds the current key. mint: the pair has no credential. rotate: the pair has a credential, but the file
 * does not hold its current key. unknown: the credentials cannot be read before the database is migrated.
 */
export type PairAction = 'keep' | 'mint' | 'rotate' | 'unknown';

export interface PlannedPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  /** The id of the live credential. */
  readonly appId: string | undefined;
}

export interface PlannedService {
  readonly service: MappedService;
  readonly file: EnvFile;
  readonly pairs: readonly PlannedPair[];
}

export interface Plan {
  readonly services: readonly PlannedService[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: readonly AppCredential[];
}

/**
 * Compares the map, the files and the live credentials. Changes nothing.
 * @param live undefined when they cannot be read yet
 */
export function makePlan(map: PlatformMap, files: EnvFiles, live: readonly AppCredential[] | undefined): Plan {
  const isMapped = (credential: AppCredential): boolean =>
    map.services.some(({ name, calls }) => name === credential.caller && calls.includes(credential.target));
  return {
    services: map.services.flatMap((service) => {
      const file = files.get(service.name);
      return file ? [{ service, file, pairs: planPairs(service, file, live) }] : [];
    }),
    strays: live?.filter((credential) => !isMapped(credential)) ?? [],
  };
}

/**
 * What cannot be undone, in words, if the plan is carried out. One service whose key was lost is the everyday repair; keys
 * of several services, or of the tokens, are lost by a wrong or an empty folder.
 */
export function listDestruction({ services, strays }: Plan, prune: boolean): string[] {
  const isLive = services.some(({ pairs }) => pairs.some(({ appId }) => appId !== undefined)) || strays.length > 0;
  const own = services.find(({ service }) => service.name === OWN_NAME)?.file;
  const rotated = services.filter(({ pairs }) => pairs.some(({ action }) => action === 'rotate'));
  const acts: string[] = [];
  if (isLive && own?.get('SECRET_KEY') === undefined)
    acts.push('make a new SECRET_KEY, with which every access token that was signed with another one is refused');
  if (rotated.length > 1)
    acts.push(
      `rotate the live keys of ${rotated.length} services (${rotated.map(({ service }) => service.name).join(', ')})`,
    );
  if (prune && strays.length > 0)
    acts.push(`revoke permanently: ${strays.map(({ caller, target }) => `${caller} → ${target}`).join(', ')}`);
  return acts;
}

/** Whether the file holds the current key. The previous key of a rotation does not count: it ends soon. */
export function holdsKey(file: EnvFile, { target, keyDigest }: AppCredential): boolean {
  const key = file.get(credentialVariables(target).key);
  return key !== undefined && isSameDigest(computeDigest(key), keyDigest);
}

export function findLive(live: readonly AppCredential[], caller: string, target: string): AppCredential | undefined {
  return live.find((credential) => credential.caller === caller && credential.target === target);
}

function planPairs(
  { name, calls }: MappedService,
  file: EnvFile,
  live: readonly AppCredential[] | undefined,
): PlannedPair[] {
  return calls.map((target) => {
    if (!live) return { caller: name, target, appId: undefined, action: 'unknown' };
    const credential = findLive(live, name, target);
    const pair = { caller: name, target, appId: credential?.id };
    if (!credential) return { ...pair, action: 'mint' };
    return { ...pair, action: holdsKey(file, credential) ? 'keep' : 'rotate' };
  });
}
