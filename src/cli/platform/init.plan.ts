import type { AppCredential } from '../../app-credentials/app-credential.entity.js';
import { computeDigest, isSameDigest } from '../../crypto/secret.js';
import type { EnvFile } from '../../config/env-file.js';
import type { EnvFiles } from './platform-files.js';
import { credentialVariables, type MappedService, type PlatformMap } from './platform-map.js';

/**
 * keep: the file holds what the database knows. mint: there is no credential. rotate: there is, but its key is lost.
 * unknown: the database cannot be asked before it is migrated.
 */
export type PairAction = 'keep' | 'mint' | 'rotate' | 'unknown';

export interface PlannedPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  /** Of the live credential. */
  readonly appId: string | undefined;
}

export interface PlannedService {
  readonly service: MappedService;
  readonly file: EnvFile;
  readonly pairs: readonly PlannedPair[];
}

export interface Plan {
  readonly services: readonly PlannedService[];
  /** Live credentials of pairs that the map does not have. */
  readonly strays: readonly AppCredential[];
}

/**
 * Compares the map, the files and the live credentials. Changes nothing.
 * @param live undefined: they cannot be read yet
 */
export function planOf(map: PlatformMap, files: EnvFiles, live: readonly AppCredential[] | undefined): Plan {
  const mapped = (credential: AppCredential): boolean =>
    map.services.some(({ name, calls }) => name === credential.caller && calls.includes(credential.target));
  return {
    services: map.services.flatMap((service) => {
      const file = files.get(service.name);
      return file ? [{ service, file, pairs: pairsOf(service, file, live) }] : [];
    }),
    strays: live?.filter((credential) => !mapped(credential)) ?? [],
  };
}

/** Whether the file holds the key that works from now on; the previous one of a rotation will not for long. */
export function holdsKey(file: EnvFile, { target, keyDigest }: AppCredential): boolean {
  const key = file.get(credentialVariables(target).key);
  return key !== undefined && isSameDigest(computeDigest(key), keyDigest);
}

export function liveOf(live: readonly AppCredential[], caller: string, target: string): AppCredential | undefined {
  return live.find((credential) => credential.caller === caller && credential.target === target);
}

function pairsOf(
  { name, calls }: MappedService,
  file: EnvFile,
  live: readonly AppCredential[] | undefined,
): PlannedPair[] {
  return calls.map((target) => {
    if (!live) return { caller: name, target, appId: undefined, action: 'unknown' };
    const credential = liveOf(live, name, target);
    const pair = { caller: name, target, appId: credential?.id };
    if (!credential) return { ...pair, action: 'mint' };
    return { ...pair, action: holdsKey(file, credential) ? 'keep' : 'rotate' };
  });
}
