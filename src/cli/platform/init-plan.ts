import { isDeepStrictEqual } from 'node:util';
import type { AppCredential } from '../../app-credentials/app-credentials.service.js';
import { computeDigest, isSameDigest } from '../../crypto/secret.js';
import type { EnvFile } from '../../config/env-file.js';
import {
  listSettings,
  type EnvFiles,
  type FileSettings,
  type NewSettings,
  type TokenRules,
} from './environment-files.js';
import { CommandFailedError } from '../terminal.js';
import { credentialVariables, OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';

/**
 * keep: the file holds the current key. issue: the pair has no credential. rotate: the pair has a credential, but the file
 * does not hold its current key. update: the file holds it, and the credential gets other scopes. unknown: the credentials cannot be read before the database is migrated.
 */
export type PairAction = 'keep' | 'issue' | 'rotate' | 'update' | 'unknown';

export interface PlannedPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  /** The live credential. */
  readonly credential: AppCredential | undefined;
  /** What its credential gets; null: all. Undefined: it keeps those that it has. */
  readonly newScopes?: readonly string[] | null | undefined;
}

export interface PlannedService {
  readonly service: MappedService;
  readonly file: EnvFile;
  readonly settings: FileSettings;
  readonly pairs: readonly PlannedPair[];
}

/** What `init` does, and what `doctor` reports as missing or different. */
export interface Plan {
  readonly services: readonly PlannedService[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: readonly AppCredential[];
}

/**
 * Compares the map, the files and the live credentials. Changes nothing.
 * @param files that can be read; a service without one is left out
 * @param live undefined when they cannot be read yet
 */
export function makePlan(
  map: PlatformMap,
  files: EnvFiles,
  live: readonly AppCredential[] | undefined,
  rules: TokenRules,
  fresh: NewSettings = { databaseUrl: undefined, secretKey: undefined },
): Plan {
  const isMapped = ({ caller, target }: AppCredential): boolean =>
    map.services.some(({ name, calls }) => name === caller && calls.includes(target));
  return {
    services: map.services.flatMap((service) => {
      const file = files.get(service.name);
      if (!file) return [];
      const settings = listSettings(service, file, files.get(OWN_NAME), rules, fresh);
      return [{ service, file, settings, pairs: planPairs(service, file, live) }];
    }),
    strays: live?.filter((credential) => !isMapped(credential)) ?? [],
  };
}

/**
 * Plans new keys for the calls of a service, or of `all`.
 * @throws {CommandFailedError} for a service that is not in the map
 */
export function addRotations({ services, strays }: Plan, caller: string): Plan {
  const isChosen = ({ service }: PlannedService): boolean => caller === 'all' || service.name === caller;
  if (!services.some(isChosen))
    throw new CommandFailedError(`The map has no service ${caller}. Nothing was changed.`, 'unknown_service');
  const rotate = (pair: PlannedPair): PlannedPair => (pair.action === 'keep' ? { ...pair, action: 'rotate' } : pair);
  const plan = (each: PlannedService) => (isChosen(each) ? { ...each, pairs: each.pairs.map(rotate) } : each);
  return { services: services.map(plan), strays };
}

/**
 * What cannot be undone, in words, if the plan is carried out. One service whose key was lost is the everyday repair; keys
 * of several services, or of the tokens, are lost by a wrong or an empty folder.
 */
export function listDestruction({ services, strays }: Plan, prune: boolean): string[] {
  const isLive = strays.length > 0 || services.some(({ pairs }) => pairs.some(({ credential }) => credential));
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

function planPairs(
  { name, calls, scopes }: MappedService,
  file: EnvFile,
  live: readonly AppCredential[] | undefined,
): PlannedPair[] {
  return calls.map((target) => {
    const credential = live?.find((each) => each.caller === name && each.target === target);
    const wanted = scopes[target];
    const isOther = wanted !== undefined && !hasScopes(credential, wanted);
    const pair = { caller: name, target, credential, ...(isOther && { newScopes: wanted }) };
    if (!live) return { ...pair, action: 'unknown' };
    if (!credential) return { ...pair, action: 'issue' };
    if (!holdsKey(file, credential)) return { ...pair, action: 'rotate' };
    return { ...pair, action: isOther ? 'update' : 'keep' };
  });
}

/** In any order. */
function hasScopes(credential: AppCredential | undefined, wanted: readonly string[] | null): boolean {
  const sort = (scopes: readonly string[] | null | undefined) => (scopes ? [...scopes].sort() : null);
  return isDeepStrictEqual(sort(credential?.scopes), sort(wanted));
}

/** Whether the caller's file holds the current key of a live credential. */
export function isDelivered({ action }: PlannedPair): boolean {
  return action === 'keep' || action === 'update';
}

/** Whether the file holds the current key. The previous key of a rotation does not count: it ends soon. */
function holdsKey(file: EnvFile, { target, keyDigest }: AppCredential): boolean {
  const key = file.get(credentialVariables(target).key);
  return key !== undefined && isSameDigest(computeDigest(key), keyDigest);
}
