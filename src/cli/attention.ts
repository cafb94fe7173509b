/** Which keys of nodes and apps are live, unused or expiring soon: for `doctor`, `status`, `map` and the lists. */
import { addDays } from '../common/clock.js';

export const UNUSED_DAYS = 30;
export const EXPIRY_NOTICE_DAYS = 14;

/** A date in the database, a text over HTTP. */
type Moment = Date | string;

/** The moments of a key, named as over HTTP. */
export interface KeyMoments {
  readonly created_at: Moment;
  readonly last_used_at: Moment | null;
  readonly expires_at: Moment | null;
  readonly revoked_at: Moment | null;
}

export function isLive({ revoked_at, expires_at }: Pick<KeyMoments, 'revoked_at' | 'expires_at'>, now: Date): boolean {
  return revoked_at === null && (expires_at === null || new Date(expires_at) > now);
}

/** A key that was never used counts from its creation. */
export function isUnusedSince(key: Pick<KeyMoments, 'last_used_at' | 'created_at'>, since: Date): boolean {
  return new Date(key.last_used_at ?? key.created_at) < since;
}

export function isUnused(key: Pick<KeyMoments, 'last_used_at' | 'created_at'>, now: Date): boolean {
  return isUnusedSince(key, addDays(now, -UNUSED_DAYS));
}

export function isExpiringSoon({ expires_at }: Pick<KeyMoments, 'expires_at'>, now: Date): boolean {
  return expires_at !== null && new Date(expires_at) > now && new Date(expires_at) < addDays(now, EXPIRY_NOTICE_DAYS);
}
