import { addSeconds } from '../common/clock.js';
import type { Environment } from '../config/environment.js';

/** How long the JWKS may be cached. */
export const JWKS_MAX_AGE_SECONDS = 300;
/** A key is shown for so long before it signs. Longer than libraries cache a JWKS by default (10 minutes), too. */
const PUBLICATION_SECONDS = 900;
/** For clocks that differ, keys that a replica has not reread yet, and the minute for which a use is recorded. */
const MARGIN_SECONDS = 600;

/** @returns before this moment, no token was signed that may still be valid */
export function getOldestIssuedAt({ accessTokenExpireMinutes }: Environment, now: Date): Date {
  return addSeconds(now, -(accessTokenExpireMinutes * 60 + MARGIN_SECONDS));
}

/** @returns when a key that was made at this moment may sign */
export function getSigningStart(createdAt: Date): Date {
  return addSeconds(createdAt, PUBLICATION_SECONDS);
}
