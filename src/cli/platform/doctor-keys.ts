// What `doctor` and `apply` find in a plan and in the credentials that the database or the service lists, without a call.
import type { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import { UNUSED_DAYS } from '../../foundation/config/limits.js';
import { describeOldKeyUse, formatPair, isExpiring, isOverlapOpen, isUnused } from '../credential-state.js';
import type { TokenRules } from './environment-files.js';
import { broken, warning, type PlatformFinding } from './finding.js';
import type { Plan, PlannedPair } from './plan.js';
import { OWN_NAME } from './platform-map.js';

export function formatPlace(pair: PlannedPair): string {
  return `${pair.caller}.env: ${formatPair(pair)}`;
}

function* checkRestrictions(
  { credential, newScopes, newForUsers }: PlannedPair,
  where: string,
  command: string,
): Generator<PlatformFinding> {
  if (!credential) return;
  if (newScopes !== undefined) {
    const [has, says] = [credential.scopes, newScopes].map((scopes) => scopes?.join(', ') ?? 'all');
    const what = `The scopes of the credential are ${has}; the map says ${says}.`;
    yield warning(where, what, `Run ${command}: it changes the scopes, and the key stays.`);
  }
  if (newForUsers !== undefined) {
    const [has, says] = newForUsers ? ['is not', 'it is'] : ['is', 'it is not'];
    const what = `The credential ${has} for users; the map says ${says}.`;
    yield warning(where, what, `Run ${command}: it changes that, and the key stays.`);
  }
}

/**
 * Finds what is wrong with the app credentials that the database or the service lists.
 * @param command that repairs what is found
 */
export function* checkKeys(
  plan: Plan,
  live: Plan['strays'],
  now: Date,
  command: 'init' | 'apply' = 'init',
): Generator<PlatformFinding> {
  const toPlace = command === 'init' ? formatPlace : formatPair;
  for (const pair of plan.services.flatMap(({ file, pairs }) => (file.exists ? pairs : []))) {
    const { credential } = pair;
    yield* checkRestrictions(pair, toPlace(pair), command);
    if (!credential || !isOverlapOpen(credential, now)) continue;
    const [state, remedy] = describeRotation(pair, credential, command);
    const until = `the old one works until ${credential.previous_key_expires_at}.`;
    yield warning(toPlace(pair), `The key was rotated and ${state}; ${until}`, remedy);
  }
  for (const credential of live) {
    const { caller, target, last_used_at, expires_at, life_days } = credential;
    const where = formatPair(credential);
    if (plan.strays.includes(credential)) {
      const what = 'There is a live credential for a pair that is not in the map.';
      yield warning(where, what, `Add the pair to the map, or run ${command} --prune.`);
    }
    if (isUnused(credential, now)) {
      const what =
        last_used_at === null
          ? `The key was not used once in more than ${UNUSED_DAYS} days.`
          : `The key was last used on ${last_used_at.slice(0, 10)}.`;
      const remedy = `If ${caller} no longer calls ${target}, remove the pair from the map and run ${command} --prune.`;
      yield warning(where, what, remedy);
    }
    if (isExpiring(credential, now)) {
      const what = `The credential expires at ${expires_at}.`;
      const issue = `After that, run ${command}: it issues one that does not expire.`;
      const renew = `Run ${command} --rotate ${caller}: the new key lives for ${life_days} days.`;
      yield warning(where, what, life_days === null ? issue : renew);
    }
  }
}

/** Finds pairs for users for which services get no token, or whose target does not validate it with this service. */
export function* checkPairsForUsers({ services }: Plan, { algorithm }: TokenRules): Generator<PlatformFinding> {
  const isForUsers = ({ credential, newForUsers }: PlannedPair): boolean =>
    newForUsers ?? credential?.for_users ?? false;
  const pairs = services.flatMap((planned) => planned.pairs.filter(isForUsers));
  if (pairs.length > 0 && algorithm === 'HS256') {
    const what =
      'Under HS256 POST /internal/token refuses every exchange, because each service that holds the SECRET_KEY could sign ' +
      `such a token itself. For users: ${pairs.map(formatPair).join(', ')}.`;
    const remedy = 'Set ACCESS_TOKEN_ALGORITHM to ES256 (docs/operations/keys.md), or remove for_users from the map.';
    yield broken(`${OWN_NAME}: ACCESS_TOKEN_ALGORITHM`, what, remedy);
  }
  const verifying = services.filter(({ service }) => service.verifiesAccessTokens).map(({ service }) => service.name);
  for (const pair of pairs.filter(({ target }) => verifying.includes(target))) {
    const { caller, target } = pair;
    const what =
      `${target} verifies access tokens itself. It refuses the tokens with which ${caller} acts for users, or, if it was ` +
      'taught their issuer, accepts them after a logout or after the pair was revoked.';
    const remedy = `Let ${target} send them to POST /internal/validate-user (docs/delegation.md), then remove verifies_access_tokens from the map.`;
    yield warning(formatPair(pair), what, remedy);
  }
}

/** @returns the warnings of the report of `init` and `apply` */
export function listWarnings(plan: Plan, rules: TokenRules): string[] {
  return Array.from(checkPairsForUsers(plan, rules), ({ what, do: remedy }) => `${what} ${remedy}`);
}

function describeRotation(
  { action, caller }: PlannedPair,
  credential: AppCredentialResponse,
  command: string,
): [state: string, remedy: string] {
  if (action === 'rotate') return ['the file does not hold the new one', `Run ${command}, then restart the service.`];
  const unused = 'the new one was not used yet';
  if (credential.current_key_used_at === null && action === 'lost')
    return [unused, `Deliver it to ${caller}, and restart ${caller}.`];
  if (credential.current_key_used_at === null) return [unused, `Restart ${caller}, so that it reads its file again.`];
  const finish = `When every replica of ${caller} has the new one: platform-auth apps rotate ${credential.app_id} --finish.`;
  return [`the new one is used, and ${describeOldKeyUse(credential)}`, finish];
}
