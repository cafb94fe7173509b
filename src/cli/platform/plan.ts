import { isDeepStrictEqual } from 'node:util';
import type { AppCredentialResponse } from '../../admin/app-credentials.admin.controller.js';
import { formatPair } from '../credential-state.js';
import { CommandFailedError } from '../terminal.js';
import type { FileSettings, ServiceFile } from './environment-files.js';
import { credentialVariables } from '../../common/names.js';
import { OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';

/**
 * keep: the file holds the current key. issue: the pair has no credential. rotate: the pair has a credential, but the file
 * does not hold its current key. update: the file holds it, and the credential gets other scopes. lost: as rotate, but the
 * key may be elsewhere, and stays. unknown: the credentials cannot be read before the database is migrated.
 */
export type PairAction = 'keep' | 'issue' | 'rotate' | 'update' | 'lost' | 'unknown';

export interface PlannedPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  /** The live credential. */
  readonly credential: AppCredentialResponse | undefined;
  /** What its credential gets; null: all. Undefined: it keeps those that it has. */
  readonly newScopes?: readonly string[] | null | undefined;
}

export interface PlannedService<File extends ServiceFile = ServiceFile> {
  readonly service: MappedService;
  readonly file: File;
  readonly settings: FileSettings;
  readonly pairs: readonly PlannedPair[];
}

/** What `init` and `apply` do, and what `doctor` reports as missing or different. */
export interface Plan<File extends ServiceFile = ServiceFile> {
  readonly services: readonly PlannedService<File>[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: readonly AppCredentialResponse[];
}

/** Neither revoked nor expired. */
export interface LiveCredentials {
  readonly items: readonly AppCredentialResponse[];
  /** The key before the last rotation is not current: it ends soon. */
  readonly isCurrentKey: (credential: AppCredentialResponse, key: string) => boolean;
}

/**
 * Compares the map, the files and the live credentials. Changes nothing.
 * @param files that can be read; a service without one is left out
 * @param live undefined when they cannot be read yet
 */
export function makePlan<File extends ServiceFile>(
  map: PlatformMap,
  files: ReadonlyMap<string, File>,
  live: LiveCredentials | undefined,
  toSettings: (service: MappedService, file: File) => FileSettings,
): Plan<File> {
  const isMapped = ({ caller, target }: AppCredentialResponse): boolean =>
    map.services.some(({ name, calls }) => name === caller && calls.includes(target));
  return {
    services: map.services.flatMap((service) => {
      const file = files.get(service.name);
      if (!file) return [];
      return [{ service, file, settings: toSettings(service, file), pairs: planPairs(service, file, live) }];
    }),
    strays: live?.items.filter((credential) => !isMapped(credential)) ?? [],
  };
}

/**
 * Plans new keys for the calls of a service, or of `all`.
 * @throws {CommandFailedError} for a service that is not in the map
 */
export function addRotations<File extends ServiceFile>(plan: Plan<File>, caller: string): Plan<File> {
  return replaceAction(plan, 'keep', 'rotate', createChoice(plan, caller));
}

/** Leaves the keys that `apply` cannot read as they are, except for those of a service, or of `all`. */
export function leaveLostKeys<File extends ServiceFile>(plan: Plan<File>, rotated: string | undefined): Plan<File> {
  const isRotated = rotated === undefined ? () => false : createChoice(plan, rotated);
  return replaceAction(plan, 'rotate', 'lost', (service) => !isRotated(service));
}

function createChoice({ services }: Plan, caller: string): (service: MappedService) => boolean {
  if (caller === 'all') return () => true;
  if (services.some(({ service }) => service.name === caller)) return ({ name }) => name === caller;
  throw new CommandFailedError(`The map has no service ${caller}. Nothing was changed.`, 'unknown_service');
}

function replaceAction<File extends ServiceFile>(
  { services, strays }: Plan<File>,
  from: PairAction,
  to: PairAction,
  isChosen: (service: MappedService) => boolean,
): Plan<File> {
  const replace = (pair: PlannedPair): PlannedPair => (pair.action === from ? { ...pair, action: to } : pair);
  const change = (each: PlannedService<File>) =>
    isChosen(each.service) ? { ...each, pairs: each.pairs.map(replace) } : each;
  return { services: services.map(change), strays };
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
  if (prune && strays.length > 0) acts.push(`revoke permanently: ${strays.map(formatPair).join(', ')}`);
  return acts;
}

function planPairs(
  { name, calls, scopes }: MappedService,
  file: ServiceFile,
  live: LiveCredentials | undefined,
): PlannedPair[] {
  return calls.map((target) => {
    const credential = live?.items.find((each) => each.caller === name && each.target === target);
    // Names of services come from the map: also `constructor`.
    const wanted = Object.hasOwn(scopes, target) ? scopes[target] : undefined;
    const isOther = wanted !== undefined && !hasScopes(credential, wanted);
    const pair = { caller: name, target, credential, ...(isOther && { newScopes: wanted }) };
    if (!live) return { ...pair, action: 'unknown' };
    if (!credential) return { ...pair, action: 'issue' };
    const key = file.get(credentialVariables(target).key);
    if (key === undefined || !live.isCurrentKey(credential, key)) return { ...pair, action: 'rotate' };
    return { ...pair, action: isOther ? 'update' : 'keep' };
  });
}

/** In any order. */
function hasScopes(credential: AppCredentialResponse | undefined, wanted: readonly string[] | null): boolean {
  const sort = (scopes: readonly string[] | null | undefined) => (scopes ? [...scopes].sort() : null);
  return isDeepStrictEqual(sort(credential?.scopes), sort(wanted));
}

/** Whether the caller's file holds the current key of a live credential. */
export function isDelivered({ action }: PlannedPair): boolean {
  return action === 'keep' || action === 'update';
}
