import type { AppCredentialsService } from '../../app-credentials/app-credentials.service.js';
import { COMMAND_LINE } from '../../access/actor.js';
import { generateSecret } from '../../crypto/secret.js';
import { describeCause } from '../system-errors.js';
import { CommandFailedError } from '../terminal.js';
import type { PairAction, PlannedPair, PlannedService } from './init.plan.js';
import { isSetIn, needsAdminKey, needsSecretKey } from './platform-files.js';
import { credentialVariables, OWN_NAME } from './platform-map.js';
import { listVerifierSettings, type TokenRules } from './verifier-variables.js';

const PLACEHOLDER = 'to-be-made';

/** Issues keys: from the database, or placeholders in a dry run. */
export interface Issuer {
  mint(caller: string, target: string): Promise<{ id: string; key: string }>;
  rotate(id: string): Promise<string>;
  revoke(id: string): Promise<unknown>;
}

export interface DeliveredPair {
  readonly caller: string;
  readonly target: string;
  readonly action: PairAction;
  readonly app_id: string | null;
}

/** What this service shares with the others. */
export interface SharedSettings {
  readonly rules: TokenRules;
  readonly secretKey: string;
  /** During a rotation of the SECRET_KEY. */
  readonly previousSecretKey: string | undefined;
}

/** Issues the keys of one caller and writes its file. When the file cannot be written, the minted keys are revoked. */
export async function deliver(
  planned: PlannedService,
  shared: SharedSettings,
  issuer: Issuer,
  dryRun: boolean,
): Promise<DeliveredPair[]> {
  const { service, file, pairs } = planned;
  const minted: (PlannedPair & { appId: string })[] = [];
  const delivered: DeliveredPair[] = [];
  try {
    setSecrets(planned, shared);
    for (const { variable, url } of service.urls) file.set(variable, url);
    for (const { variable, value } of listVerifierSettings(service, shared.rules)) file.set(variable, value);
    // Before its keys are minted: a rerun recognises the folder by the file of this service.
    if (!dryRun && service.name === OWN_NAME && !file.exists) file.write(toHeading(service.name));
    for (const pair of pairs) {
      const { caller, target, action } = pair;
      if (action === 'unknown') {
        delivered.push({ caller, target, action, app_id: null });
        continue;
      }
      const issued = await issue(pair, issuer);
      if (action === 'mint') minted.push({ ...pair, appId: issued.id });
      const names = credentialVariables(target);
      file.set(names.id, issued.id);
      if (issued.key !== undefined) file.set(names.key, issued.key);
      delivered.push({ caller, target, action, app_id: dryRun && action === 'mint' ? null : issued.id });
    }
    if (!dryRun && file.needsWriting) file.write(toHeading(service.name));
    return delivered;
  } catch (error) {
    throw new CommandFailedError(
      `${file.path} could not be written: ${describeCause(error)}.\n${await revokeMinted(minted, issuer)}\n` +
        'Files written before remain valid. Remove the cause and run init again: it completes the rest.',
    );
  }
}

function setSecrets({ service, file }: PlannedService, { rules, secretKey, previousSecretKey }: SharedSettings): void {
  const isNew = service.name === OWN_NAME && file.get('SECRET_KEY') === undefined;
  if (needsSecretKey(service, rules)) {
    file.set('SECRET_KEY', secretKey);
    if (previousSecretKey !== undefined) file.set('SECRET_KEY_PREVIOUS', previousSecretKey);
  }
  // Without an AUDIT_SEAL_KEY, services that hold the SECRET_KEY could derive the key of the seals. Where the SECRET_KEY is
  // in use, a new one would not verify the seals made so far.
  if (isNew && !isSetIn(file, 'AUDIT_SEAL_KEY')) file.set('AUDIT_SEAL_KEY', generateSecret());
  if (needsAdminKey(service) && file.get('ADMIN_API_KEY') === undefined) file.set('ADMIN_API_KEY', generateSecret());
}

function toHeading(service: string): string {
  return `# ${service}. Written by platform-auth init, which keeps your own lines.`;
}

async function issue({ caller, target, action, appId }: PlannedPair, issuer: Issuer) {
  if (action === 'mint' || appId === undefined) return issuer.mint(caller, target);
  return { id: appId, key: action === 'rotate' ? await issuer.rotate(appId) : undefined };
}

/** The keys of these credentials were not delivered to their caller. */
async function revokeMinted(minted: readonly (PlannedPair & { appId: string })[], issuer: Issuer): Promise<string> {
  if (minted.length === 0) return 'No credential was minted for it.';
  const pairs = minted.map(({ caller, target }) => `${caller} → ${target}`).join(', ');
  try {
    for (const { appId } of minted) await issuer.revoke(appId);
    return `The credentials minted for it are revoked again: ${pairs}.`;
  } catch (error) {
    return `The credentials minted for it could not be revoked (${describeCause(error)}); their keys are lost: ${pairs}.`;
  }
}

/** Once the lock is lost it issues no more keys, because another run may do so; it still revokes undelivered ones. */
export function createIssuer(credentials: AppCredentialsService, overlapHours: number, lockLost: AbortSignal): Issuer {
  return {
    mint: async (caller, target) => {
      lockLost.throwIfAborted();
      const { credential, key } = await credentials.issueAppCredential(
        { caller, target, expiresAt: null },
        COMMAND_LINE,
      );
      return { id: credential.id, key };
    },
    rotate: async (id) => {
      lockLost.throwIfAborted();
      return (await credentials.rotateAppKey(id, overlapHours, COMMAND_LINE)).key;
    },
    revoke: (id) => credentials.revokeAppCredential(id, COMMAND_LINE),
  };
}

export const DRY_RUN_ISSUER: Issuer = {
  mint: () => Promise.resolve({ id: PLACEHOLDER, key: PLACEHOLDER }),
  rotate: () => Promise.resolve(PLACEHOLDER),
  revoke: () => Promise.resolve(),
};
