/** Which credentials are live, unused or about to expire, for `doctor`, `map` and colours. The service filters lists by the same rules in SQL (domain/keys/key-record.ts). */
import type { KeyResponse } from '../api/admin/key.dto.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../foundation/config/limits.js';

const DAY_MS = 86_400_000;

type Key = Pick<KeyResponse, 'created_at' | 'last_used_at' | 'expires_at' | 'revoked_at' | 'previous_key_expires_at'>;

export function isLive({ revoked_at, expires_at }: Pick<Key, 'revoked_at' | 'expires_at'>, now: Date): boolean {
  return revoked_at === null && (expires_at === null || new Date(expires_at) > now);
}

/** A key that was never used counts as used when it was created. */
export function isUnused(key: Pick<Key, 'last_used_at' | 'created_at'>, now: Date): boolean {
  return now.getTime() - new Date(key.last_used_at ?? key.created_at).getTime() > UNUSED_DAYS * DAY_MS;
}

export function isOverlapOpen({ previous_key_expires_at }: Pick<Key, 'previous_key_expires_at'>, now: Date): boolean {
  return previous_key_expires_at !== null && new Date(previous_key_expires_at) > now;
}

type Rotated = Pick<KeyResponse, 'rotated_at' | 'previous_key_used_at' | 'previous_key_used_for'>;

/** Tells an operator whether the previous key can be ended without breaking a caller. */
export function describeOldKeyUse({ rotated_at, previous_key_used_at, previous_key_used_for }: Rotated): string {
  if (previous_key_used_at === null || (rotated_at !== null && previous_key_used_at <= rotated_at))
    return 'the old one was not used since the rotation';
  const service = previous_key_used_for === null ? '' : `, for ${previous_key_used_for}`;
  return `the old one was last used at ${previous_key_used_at}${service}`;
}

export function isExpiring({ expires_at }: Pick<Key, 'expires_at'>, now: Date): boolean {
  if (expires_at === null) return false;
  const leftMs = new Date(expires_at).getTime() - now.getTime();
  return leftMs > 0 && leftMs < EXPIRY_NOTICE_DAYS * DAY_MS;
}

export function formatPair({ caller, target }: { readonly caller: string; readonly target: string }): string {
  return `${caller} → ${target}`;
}
