/** Live, unused and expiring as `doctor`, `map` and the colours of lists judge them; SQL in keys/key-table.ts does so for lists. */
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../config/limits.js';

const DAY_MS = 86_400_000;

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
export function isUnused(key: Pick<KeyMoments, 'last_used_at' | 'created_at'>, now: Date): boolean {
  return now.getTime() - new Date(key.last_used_at ?? key.created_at).getTime() > UNUSED_DAYS * DAY_MS;
}

export function isExpiring({ expires_at }: Pick<KeyMoments, 'expires_at'>, now: Date): boolean {
  if (expires_at === null) return false;
  const leftMs = new Date(expires_at).getTime() - now.getTime();
  return leftMs > 0 && leftMs < EXPIRY_NOTICE_DAYS * DAY_MS;
}
