// Carries out a plan: issues, restricts, rotates and revokes app credentials, and writes each key into the file of its
// caller. `init` does so in the database, `apply` over HTTP. A credential counts only once its caller's file holds the key, so
// that the next run completes what was interrupted.
import { basename } from 'node:path';
import { formatPair } from '../credential-state.js';
import type { AppCredentialResponse } from '../../admin/app-credentials.admin.controller.js';
import { DEFAULT_OVERLAP_HOURS } from '../../config/limits.js';
import { ADMIN_KEY_PREFIX, generateKey } from '../../crypto/key-format.js';
import { generateSecret } from '../../crypto/secret.js';
import { describeCause } from '../failures.js';
import { announceIfSlow, CommandFailedError } from '../terminal.js';
import { isSetIn, type ServiceFile } from './environment-files.js';
import { type PairAction, type Plan, type PlannedPair, type PlannedService } from './plan.js';
import { credentialVariables } from '../../common/names.js';
import { OWN_NAME } from './platform-map.js';

/** What was done, or would be done. Holds no secret. */
export interface PlanReport {
  readonly dry_run: boolean;
  readonly migrations: readonly string[];
  readonly files: { file: string; changed: boolean; variables: string[] }[];
  readonly pairs: {
    caller: string;
    target: string;
    action: PairAction;
    app_id: string | null;
    /** When they change; null: all. */
    scopes?: readonly string[] | null;
  }[];
  /** Live credentials of pairs that are not in the map. */
  readonly strays: { caller: string; target: string; app_id: string; revoked: boolean }[];
}

/** Where credentials are changed. */
export interface CredentialStore {
  issue(pair: Pick<AppCredentialResponse, 'caller' | 'target' | 'scopes'>): Promise<{ id: string; key: string }>;
  updateScopes(id: string, scopes: readonly string[] | null): Promise<unknown>;
  /** @returns the new key @throws when it was rotated since the credential was read: two runs never both get a key */
  rotate(credential: AppCredentialResponse): Promise<string>;
  revoke(ids: readonly string[]): Promise<unknown>;
}

interface PlanOptions {
  /** The command, as its messages call it. */
  readonly program: 'init' | 'apply';
  /** Revoke the live credentials of pairs that are not in the map. */
  readonly prune: boolean;
  readonly migrations?: readonly string[];
}

/** @param store undefined: a dry run, which changes the files in memory only */
export async function carryOutPlan(plan: Plan, options: PlanOptions, store?: CredentialStore): Promise<PlanReport> {
  const { program, prune, migrations = [] } = options;
  const report: PlanReport = { dry_run: store === undefined, migrations, files: [], pairs: [], strays: [] };
  for (const planned of plan.services) {
    const { file } = planned;
    const delivery = deliver(planned, report.pairs, program, store);
    report.pairs.push(...(await announceIfSlow(`Writing ${file.path}`, delivery)));
    report.files.push({ file: basename(file.path), changed: file.needsWriting, variables: file.changes });
  }
  if (prune && store && plan.strays.length > 0) await store.revoke(plan.strays.map(({ app_id }) => app_id));
  report.strays.push(...plan.strays.map(({ app_id, caller, target }) => ({ caller, target, app_id, revoked: prune })));
  return report;
}

/** The root key of this service has the form of its keys, which scanners and `platform-auth leaked` recognise. */
function generateValue(service: string, name: string): string {
  return service === OWN_NAME && name === 'ADMIN_API_KEY' ? generateKey(ADMIN_KEY_PREFIX) : generateSecret();
}

function hasNewKey({ action }: Pick<PlannedPair, 'action'>): boolean {
  return action === 'issue' || action === 'rotate';
}

/**
 * Issues the keys of one caller and writes its file. When the file cannot be written, the issued keys are revoked.
 * @param before what was delivered before
 */
async function deliver(
  { service, file, settings, pairs }: PlannedService,
  before: PlanReport['pairs'],
  program: PlanOptions['program'],
  store?: CredentialStore,
): Promise<PlanReport['pairs']> {
  const heading = `# ${service.name}. Written by platform-auth ${program}, which keeps your own lines.`;
  const issued: (PlannedPair & { id: string })[] = [];
  const rotated: PlannedPair[] = [];
  const delivered: PlanReport['pairs'] = [];
  // A file is written whole or not at all: what replaces it elsewhere must not lack a key that is in use.
  const isWritten = !pairs.some(({ action }) => action === 'lost');
  try {
    for (const [name, value] of isWritten ? Object.entries(settings) : [])
      if (value !== undefined || !isSetIn(file, name)) file.set(name, value ?? generateValue(service.name, name));
    // Before its keys are issued: a rerun recognises the folder by the file of this service.
    if (store && service.name === OWN_NAME && !file.exists) await file.write(heading);
    if (store && pairs.some(hasNewKey)) file.rehearseWrite();
    for (const pair of pairs) {
      const { caller, target, action, newScopes } = pair;
      const { id, key } = store ? await changeCredential(pair, store) : { id: pair.credential?.app_id, key: undefined };
      if (store && action === 'issue' && id !== undefined) issued.push({ ...pair, id });
      if (store && action === 'rotate') rotated.push(pair);
      const names = credentialVariables(target);
      if (isWritten && (id !== undefined || action === 'issue')) file.set(names.id, id ?? PLACEHOLDER);
      if (hasNewKey(pair)) file.set(names.key, key ?? PLACEHOLDER);
      const scopes = newScopes !== undefined && { scopes: newScopes };
      delivered.push({ caller, target, action, app_id: id ?? null, ...scopes });
    }
    if (store && file.needsWriting) await file.write(heading);
    return delivered;
  } catch (error) {
    const outcome = issued.length > 0 && store ? await revokeIssued(issued, store) : 'No credential was issued for it.';
    throw new CommandFailedError(
      `${file.path} could not be written: ${describeCause(error)}.\n${outcome}\n` +
        `${describeLoss(rotated, file, before)} Remove the cause and run ${program} again: it completes the rest.`,
      error instanceof CommandFailedError ? error.code : undefined,
    );
  }
}

/** @param before what was delivered before the file that could not be written */
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

/** What stands for a new id or key in a dry run. */
const PLACEHOLDER = 'to-be-generated';

/** @returns the id of the pair's credential, if it has one now, and its key if that is new */
async function changeCredential(
  { caller, target, action, credential, newScopes }: PlannedPair,
  store: CredentialStore,
): Promise<{ id: string | undefined; key: string | undefined }> {
  if (action === 'issue') return store.issue({ caller, target, scopes: newScopes ?? null });
  if (credential && newScopes !== undefined) await store.updateScopes(credential.app_id, newScopes);
  const isRotated = action === 'rotate' && credential;
  return { id: credential?.app_id, key: isRotated ? await store.rotate(credential) : undefined };
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeIssued(issued: readonly (PlannedPair & { id: string })[], store: CredentialStore) {
  const pairs = issued.map(formatPair).join(', ');
  try {
    await store.revoke(issued.map(({ id }) => id));
    return `The credentials issued for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials issued for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}
