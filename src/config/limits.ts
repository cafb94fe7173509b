/** How long two keys of one credential may be valid at once: a year. */
export const MAX_OVERLAP_HOURS = 8_760;

/** An IPv6 /48 holds 65,536 networks of /64, and may be one attacker or a whole office. */
export const SITE_BUDGET_FACTOR = 16;

/**
 * At most this many attempts in a window, which starts with the first attempt. Each limit by network counts an IPv4
 * address or an IPv6 /64, and an IPv6 /48 with {@link SITE_BUDGET_FACTOR} times the points.
 */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/** Of the hashes that this service makes: 3 s of one core. */
export const MAX_BCRYPT_COST = 16;
