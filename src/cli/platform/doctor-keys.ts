// What is wrong with the app credentials of a platform: as the database has them, or as the service tells from afar.
import { UNUSED_DAYS } from '../../config/limits.js';
import { formatPair, isExpiring, isOverlapOpen, isUnused } from '../credential-state.js';
import { formatPlace, warning, type Finding } from './doctor-calls.js';
import { isDelivered, type Plan, type PlannedPair } from './plan.js';

/** @param command that repairs what is found */
export function* checkKeys(
  plan: Plan,
  live: Plan['strays'],
  now: Date,
  command: 'init' | 'apply' = 'init',
): Generator<Finding> {
  const toPlace = command === 'init' ? formatPlace : formatPair;
  for (const pair of plan.services.flatMap(({ file, pairs }) => (file.exists ? pairs : []))) {
    const { credential, newScopes } = pair;
    if (credential && newScopes !== undefined) {
      const [has, says] = [credential.scopes, newScopes].map((scopes) => scopes?.join(', ') ?? 'all');
      const what = `The scopes of the credential are ${has}; the map says ${says}.`;
      yield warning(toPlace(pair), what, `Run ${command}: it changes the scopes, and the key stays.`);
    }
    if (!credential || !isOverlapOpen(credential, now)) continue;
    const [state, remedy] = describeRotation(pair, command);
    const until = `the old one works until ${credential.previous_key_expires_at}.`;
    yield warning(toPlace(pair), `The key was rotated and ${state}; ${until}`, remedy);
  }
  for (const credential of live) {
    const { caller, target, last_used_at, expires_at } = credential;
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
      yield warning(where, what, `After that, run ${command}: it issues one that does not expire.`);
    }
  }
}

function describeRotation(pair: PlannedPair, command: string): [state: string, remedy: string] {
  const { action, caller } = pair;
  if (action === 'lost') return ['the new one was not used yet', `Deliver it to ${caller}, and restart ${caller}.`];
  if (isDelivered(pair)) return ['the new one was not used yet', `Restart ${caller}, so that it reads its file again.`];
  return ['the file does not hold the new one', `Run ${command}, then restart the service.`];
}
