import { rate, wholeNumber } from './variable-kinds.js';

/** How long two keys of one credential may be valid at once: a year. */
export const MAX_OVERLAP_HOURS = 8_760;

/** At most this many attempts in a window, which starts with the first attempt. */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/**
 * Limits of attempts, written `points/seconds`. Each limit by network counts an IPv4 address or an IPv6 /64, and
 * an IPv6 /48 with {@link SITE_BUDGET_FACTOR} times the points.
 */
export interface Limits {
  /** Wrong passwords for one account from one address. */
  readonly loginPerAccountAndAddress: Limit;
  /** Wrong passwords for one account from all addresses. */
  readonly loginPerAccount: Limit;
  /** Wrong passwords for all accounts from one address. */
  readonly loginPerAddress: Limit;
  /** Logins and registrations that the full password queue of one replica refused. */
  readonly hashingBusyPerAddress: Limit;
  readonly adminKeyPerAddress: Limit;
  readonly registrationPerAddress: Limit;
  readonly refreshPerAddress: Limit;
  readonly knownAddressDays: number;
}

/** An IPv6 /48 holds 65,536 networks of /64, and may be one attacker or a whole office. */
export const SITE_BUDGET_FACTOR = 16;

export const limitVariables = {
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: rate.default('10/900').transform(parseLimit),
  LOGIN_LIMIT_PER_ACCOUNT: rate.default('100/900').transform(parseLimit),
  LOGIN_LIMIT_PER_ADDRESS: rate.default('1000/900').transform(parseLimit),
  HASHING_BUSY_LIMIT_PER_ADDRESS: rate.default('200/60').transform(parseLimit),
  ADMIN_KEY_LIMIT_PER_ADDRESS: rate.default('20/900').transform(parseLimit),
  REGISTRATION_LIMIT_PER_ADDRESS: rate.default('1000/3600').transform(parseLimit),
  REFRESH_LIMIT_PER_ADDRESS: rate.default('6000/60').transform(parseLimit),
  KNOWN_ADDRESS_DAYS: wholeNumber(1, 365).default(30),
};

type LimitValues = Record<Exclude<keyof typeof limitVariables, 'KNOWN_ADDRESS_DAYS'>, Limit> & {
  KNOWN_ADDRESS_DAYS: number;
};

export function toLimits(value: LimitValues): Limits {
  return {
    loginPerAccountAndAddress: value.LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS,
    loginPerAccount: value.LOGIN_LIMIT_PER_ACCOUNT,
    loginPerAddress: value.LOGIN_LIMIT_PER_ADDRESS,
    hashingBusyPerAddress: value.HASHING_BUSY_LIMIT_PER_ADDRESS,
    adminKeyPerAddress: value.ADMIN_KEY_LIMIT_PER_ADDRESS,
    registrationPerAddress: value.REGISTRATION_LIMIT_PER_ADDRESS,
    refreshPerAddress: value.REFRESH_LIMIT_PER_ADDRESS,
    knownAddressDays: value.KNOWN_ADDRESS_DAYS,
  };
}

function parseLimit(text: string): Limit {
  const [points = 0, seconds = 0] = text.split('/').map(Number);
  return { points, seconds };
}
