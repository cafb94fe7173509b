// A plan compares the map, the files and the live credentials. Carrying it out issues, restricts, rotates and revokes app
// credentials, and writes each key into the file of its caller: `init` in the database, `apply` over HTTP. A credential counts
// only once its caller's file holds the key, so that the next run completes what was interrupted.
import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import type { EventType } from '../../domain/events/event-types.js';
import { toCredentialVariables } from '../../foundation/common/names.js';
import { DEFAULT_OVERLAP_HOURS } from '../../foundation/config/limits.js';
import { generateSecret, generateVariable } from '../../foundation/crypto/secret.js';
import { formatPair } from '../credential-state.js';
import { describeCause } from '../failures.js';
import { announceIfSlow, CommandFailedError } from '../terminal.js';
import { isSetIn, type FileSettings, type ServiceFile } from './environment-files.js';
import { OWN_NAME, type MappedService, type PlatformMap } from './platform-map.js';

/**
 * keep: the file holds the current key.
 * issue: the pair has no credential.
 * rotate: the file does not hold the current key of the credential, or the operator asked for a new one.
 * update: the file holds the current key, and the credential gets other scopes, or is for users or no longer.
 * lost: the file does not hold the current key, but another place may, so `apply` changes nothing.
 * old: the file holds the previous key, which is valid; the operator has the current one.
 * unknown: the credentials cannot be read before the database is migrated.
 */
type PairAction = 'keep' | 'issue' | 'rotate' | 'update' | 'lost' | 'old' | 'unknown';

export interface PlannedPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  readonly credential: AppCredentialResponse | undefined;
  /** Whether the file holds the key before the last rotation, which is still valid. */
  readonly hasOldKey?: boolean;
  /** The scopes that the credential gets; null allows all. Undefined keeps the present ones. */
  readonly newScopes?: readonly string[] | null | undefined;
  /** Whether the credential becomes one for users, or stops to be one. Undefined keeps what it is. */
  readonly newForUsers?: boolean;
}

export interface PlannedService {
  readonly service: MappedService;
  readonly file: ServiceFile;
  readonly settings: FileSettings;
  readonly pairs: readonly PlannedPair[];
  /** The types of events to which it is subscribed; undefined leaves its subscription as it is. */
  readonly newEvents: readonly EventType[] | undefined;
}

/** What `init` and `apply` do, and what `doctor` reports as missing or different. */
export interface Plan {
  readonly services: readonly PlannedService[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: readonly AppCredentialResponse[];
}

/** The credentials that are neither revoked nor expired, and the subscriptions to events. */
export interface LiveCredentials {
  readonly items: readonly AppCredentialResponse[];
  /** The types of events by service. */
  readonly subscriptions: ReadonlyMap<string, readonly EventType[]>;
  /** @returns undefined when the key is not valid, or belongs to another credential */
  readonly findKeyState: (credential: AppCredentialResponse, key: string) => 'current' | 'previous' | undefined;
}

/**
 * Compares the map, the files and the live credentials, and changes nothing.
 * @param files that can be read; a service without one is left out
 * @param live undefined when the credentials cannot be read yet
 */
export function makePlan(
  map: PlatformMap,
  files: ReadonlyMap<string, ServiceFile>,
  live: LiveCredentials | undefined,
  toSettings: (service: MappedService, file: ServiceFile) => FileSettings,
): Plan {
  const isMapped = ({ caller, target }: AppCredentialResponse): boolean =>
    map.services.some(({ name, calls }) => name === caller && calls.includes(target));
  return {
    services: map.services.flatMap((service) => {
      const file = files.get(service.name);
      if (!file) return [];
      const pairs = planPairs(service, file, live);
      return [{ service, file, settings: toSettings(service, file), pairs, newEvents: planEvents(service, live) }];
    }),
    strays: live?.items.filter((credential) => !isMapped(credential)) ?? [],
  };
}

/**
 * Plans new keys for those calls of a service, or of `all`, that have a credential.
 * @throws {CommandFailedError} when the service is not in the map
 */
export function addRotations(plan: Plan, caller: string): Plan {
  const isChosen = createChoice(plan, caller);
  return replaceActions(plan, ({ action, credential }, service) =>
    credential && isChosen(service) ? 'rotate' : action,
  );
}

/**
 * Leaves keys that `apply` cannot read as they are, except those of one service, or of `all`. A file with the previous
 * key gets no new one either, because the operator did not ask for a second rotation.
 */
export function leaveLostKeys(plan: Plan, rotated: string | undefined): Plan {
  const isRotated = rotated === undefined ? () => false : createChoice(plan, rotated);
  return replaceActions(plan, ({ action, hasOldKey }, service) => {
    if (action !== 'rotate') return action;
    if (hasOldKey) return 'old';
    return isRotated(service) ? 'rotate' : 'lost';
  });
}

function createChoice({ services }: Plan, caller: string): (service: MappedService) => boolean {
  if (caller === 'all') return () => true;
  if (services.some(({ service }) => service.name === caller)) return ({ name }) => name === caller;
  throw new CommandFailedError(`The map has no service ${caller}. Nothing was changed.`, 'unknown_service');
}

function replaceActions(
  { services, strays }: Plan,
  choose: (pair: PlannedPair, service: MappedService) => PairAction,
): Plan {
  const change = (each: PlannedService): PlannedService => ({
    ...each,
    pairs: each.pairs.map((pair) => ({ ...pair, action: choose(pair, each.service) })),
  });
  return { services: services.map(change), strays };
}

/**
 * @returns what the plan would destroy, in words. Replacing the lost keys of one service is an everyday repair, but
 * several services, or SECRET_KEY, lose theirs only through a wrong or empty folder.
 */
export function listDestruction({ services, strays }: Plan, prune: boolean): string[] {
  const isLive = strays.length > 0 || services.some(({ pairs }) => pairs.some(({ credential }) => credential));
  const own = services.find(({ service }) => service.name === OWN_NAME)?.file;
  const rotated = services.filter(({ pairs }) => pairs.some(({ action }) => action === 'rotate'));
  const actions: string[] = [];
  if (isLive && own?.get('SECRET_KEY') === undefined)
    actions.push(
      'make a new SECRET_KEY and MASTER_KEY, with which every access token that was signed with another one is refused, and every TOTP secret unreadable',
    );
  if (rotated.length > 1)
    actions.push(
      `rotate the live keys of ${rotated.length} services (${rotated.map(({ service }) => service.name).join(', ')})`,
    );
  if (prune && strays.length > 0) actions.push(`revoke permanently: ${strays.map(formatPair).join(', ')}`);
  return actions;
}

function planPairs(
  { name, calls, scopes, forUsers }: MappedService,
  file: ServiceFile,
  live: LiveCredentials | undefined,
): PlannedPair[] {
  return calls.map((target) => {
    const credential = live?.items.find((each) => each.caller === name && each.target === target);
    // `hasOwn`, because a service of the map may be named `constructor`.
    const wanted = Object.hasOwn(scopes, target) ? scopes[target] : undefined;
    const areScopesOther = wanted !== undefined && !hasScopes(credential, wanted);
    const newForUsers = Object.hasOwn(forUsers, target) ? forUsers[target] : undefined;
    const isUseOther = newForUsers !== undefined && newForUsers !== (credential?.for_users ?? false);
    const changes = { ...(areScopesOther && { newScopes: wanted }), ...(isUseOther && { newForUsers }) };
    const isOther = areScopesOther || isUseOther;
    const pair = { caller: name, target, credential, ...changes };
    if (!live) return { ...pair, action: 'unknown' };
    if (!credential) return { ...pair, action: 'issue' };
    const key = file.get(toCredentialVariables(target).key);
    const state = key === undefined ? undefined : live.findKeyState(credential, key);
    if (state !== 'current') return { ...pair, action: 'rotate', hasOldKey: state === 'previous' };
    return { ...pair, action: isOther ? 'update' : 'keep' };
  });
}

function planEvents({ name, events }: MappedService, live: LiveCredentials | undefined): PlannedService['newEvents'] {
  const present = live?.subscriptions.get(name) ?? [];
  const isSame = events?.length === present.length && events.every((type) => present.includes(type));
  return isSame ? undefined : events;
}

/** The order of scopes has no meaning. */
function hasScopes(credential: AppCredentialResponse | undefined, wanted: readonly string[] | null): boolean {
  const sort = (scopes: readonly string[] | null | undefined) => (scopes ? [...scopes].sort() : null);
  return isDeepStrictEqual(sort(credential?.scopes), sort(wanted));
}

/** Whether the caller's file holds the current key of a live credential. */
export function isDelivered({ action }: PlannedPair): boolean {
  return action === 'keep' || action === 'update';
}

/** What was done, or would be done. Contains no secret. */
export interface PlanReport {
  readonly dry_run: boolean;
  readonly migrations: readonly string[];
  readonly files: { file: string; changed: boolean; variables: string[] }[];
  readonly pairs: {
    caller: string;
    target: string;
    action: PairAction;
    app_id: string | null;
    /** Present when the scopes change; null allows all. */
    scopes?: readonly string[] | null;
    /** Present when scopes restrict the credential, and the map names none. */
    kept_scopes?: readonly string[];
    /** Present when it changes. */
    for_users?: boolean;
  }[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
  /** Subscriptions that are new or get other types. */
  readonly subscriptions: { service: string; types: readonly EventType[] }[];
  /** Settings under which pairs for users get no token, or whose target does not validate it with this service. */
  readonly warnings: readonly string[];
}

type PairChange = Partial<Pick<AppCredentialResponse, 'scopes' | 'for_users'>>;

export interface CredentialStore {
  issue(
    pair: Pick<AppCredentialResponse, 'caller' | 'target' | 'scopes'> & PairChange,
  ): Promise<{ id: string; key: string }>;
  update(id: string, change: PairChange): Promise<unknown>;
  /**
   * @returns the new key
   * @throws when the key was rotated since the plan was made, so that two runs never both get a key
   */
  rotate(credential: AppCredentialResponse): Promise<string>;
  revoke(ids: readonly string[]): Promise<unknown>;
  subscribe(service: string, types: readonly EventType[]): Promise<unknown>;
}

interface PlanOptions {
  /** The name of the command in its messages. */
  readonly program: 'init' | 'apply';
  /** Revokes the live credentials of pairs that are not in the map. */
  readonly prune: boolean;
  readonly migrations?: readonly string[];
  readonly warnings: readonly string[];
}

/** @param store undefined for a dry run, which changes the files in memory only */
export async function carryOutPlan(plan: Plan, options: PlanOptions, store?: CredentialStore): Promise<PlanReport> {
  const { program, prune, migrations = [], warnings } = options;
  const lists = { files: [], pairs: [], strays: [], subscriptions: [] };
  const report: PlanReport = { dry_run: store === undefined, migrations, warnings, ...lists };
  for (const planned of plan.services) {
    const { file } = planned;
    const gone = prune ? plan.strays.filter(({ caller }) => caller === planned.service.name) : [];
    const delivery = deliver({ ...planned, gone }, report.pairs, program, store);
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, delivery)));
    report.files.push({ file: basename(file.path), changed: file.needsWriting, variables: file.changes });
  }
  for (const { service, newEvents } of plan.services) {
    if (!newEvents) continue;
    await store?.subscribe(service.name, newEvents);
    report.subscriptions.push({ service: service.name, types: newEvents });
  }
  if (prune && store && plan.strays.length > 0) await store.revoke(plan.strays.map(({ app_id }) => app_id));
  report.strays.push(...plan.strays.map(({ app_id, caller, target }) => ({ caller, target, app_id, revoked: prune })));
  return report;
}

function hasNewKey({ action }: Pick<PlannedPair, 'action'>): boolean {
  return action === 'issue' || action === 'rotate';
}

/**
 * Issues the keys of one caller and writes its file. When the file cannot be written, the issued keys are revoked.
 * @param before the pairs whose files were written before
 */
async function deliver(
  { service, file, settings, pairs, gone }: PlannedService & { readonly gone: Plan['strays'] },
  before: PlanReport['pairs'],
  program: PlanOptions['program'],
  store?: CredentialStore,
): Promise<PlanReport['pairs']> {
  const heading = `# ${service.name}. Written by platform-auth ${program}, which keeps your own lines.`;
  const issued: (PlannedPair & { id: string })[] = [];
  const rotated: PlannedPair[] = [];
  const delivered: PlanReport['pairs'] = [];
  // A file without its lost keys is not written: it would replace a document that has them.
  const isWritten = !pairs.some(({ action }) => action === 'lost');
  try {
    const generate = service.name === OWN_NAME ? generateVariable : () => generateSecret();
    for (const [name, value] of isWritten ? Object.entries(settings) : [])
      if (value !== undefined || !isSetIn(file, name)) file.set(name, value ?? generate(name));
    if (isWritten) removeKeys(file, gone, pairs);
    // Written before its keys are issued, because a rerun recognises the folder by the file of auth.
    if (store && service.name === OWN_NAME && !file.exists) await file.write(heading);
    if (store && pairs.some(hasNewKey)) file.rehearseWrite();
    for (const pair of pairs) {
      const { caller, target, action } = pair;
      const { id, key } = store ? await changeCredential(pair, store) : { id: pair.credential?.app_id, key: undefined };
      if (store && action === 'issue' && id !== undefined) issued.push({ ...pair, id });
      if (store && action === 'rotate') rotated.push(pair);
      const names = toCredentialVariables(target);
      if (isWritten && (id !== undefined || action === 'issue')) file.set(names.id, id ?? PLACEHOLDER);
      if (hasNewKey(pair)) file.set(names.key, key ?? PLACEHOLDER);
      const kept = Object.hasOwn(service.scopes, target) ? null : pair.credential?.scopes;
      const keptScopes = kept && { kept_scopes: kept };
      delivered.push({ caller, target, action, app_id: id ?? null, ...keptScopes, ...toPairChange(pair) });
    }
    if (store && (file.needsWriting || (isWritten && file.isRepeated))) await file.write(heading);
    return delivered;
  } catch (error) {
    const outcome = issued.length > 0 && store ? await revokeIssued(issued, store) : 'No credential was issued for it.';
    throw new CommandFailedError(
      `${file.path} is not complete: ${describeCause(error)}.\n${outcome}\n` +
        `${describeLoss(rotated, file, before)} Remove the cause and run ${program} again: it completes the rest.`,
      error instanceof CommandFailedError ? error.code : undefined,
    );
  }
}

/** Removes the keys of revoked pairs, but keeps variables that a pair of the map uses too. */
function removeKeys(file: ServiceFile, gone: Plan['strays'], pairs: readonly PlannedPair[]): void {
  const list = ({ target }: { target: string }) => Object.values(toCredentialVariables(target));
  const kept = new Set(pairs.flatMap(list));
  for (const name of gone.flatMap(list)) if (!kept.has(name)) file.remove(name);
}

/** @param before the pairs whose files were written before this one failed */
function describeLoss(rotated: readonly PlannedPair[], { isStream }: ServiceFile, before: PlanReport['pairs']): string {
  const loss =
    rotated.length > 0
      ? `The new keys of ${rotated.map(formatPair).join(', ')} are lost; the old ones work for ${DEFAULT_OVERLAP_HOURS} hours.\n`
      : '';
  const newBefore = before.filter(hasNewKey).map(formatPair).join(', ');
  return isStream && newBefore !== ''
    ? `${loss}The new keys in the documents before it may be lost too: ${newBefore}.`
    : `${loss}Files written before remain valid.`;
}

/** Stands in the report of a dry run for an id or a key that is not issued yet. */
const PLACEHOLDER = 'to-be-generated';

/** @returns the id of the pair's credential, if it has one, and its key if that is new */
async function changeCredential(
  pair: PlannedPair,
  store: CredentialStore,
): Promise<{ id: string | undefined; key: string | undefined }> {
  const { caller, target, action, credential } = pair;
  const change = toPairChange(pair);
  if (action === 'issue') return store.issue({ caller, target, scopes: null, ...change });
  if (credential && Object.keys(change).length > 0) await store.update(credential.app_id, change);
  const isRotated = action === 'rotate' && credential;
  return { id: credential?.app_id, key: isRotated ? await store.rotate(credential) : undefined };
}

function toPairChange({ newScopes, newForUsers }: PlannedPair): PairChange {
  return {
    ...(newScopes !== undefined && { scopes: newScopes }),
    ...(newForUsers !== undefined && { for_users: newForUsers }),
  };
}

async function revokeIssued(issued: readonly (PlannedPair & { id: string })[], store: CredentialStore) {
  const pairs = issued.map(formatPair).join(', ');
  try {
    await store.revoke(issued.map(({ id }) => id));
    return `The credentials issued for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials issued for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}
