import { rate, redisUrl, wholeNumber } from './variable-kinds.js';

/** How long two keys of one credential may be good at once: a year. */
export const MOST_OVERLAP_HOURS = 8_760;

/** So many tries in a window; the window starts with the first of them. */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/** How often strangers may try. Written `points/seconds`. */
export interface Limits {
  /** Wrong passwords for one account from one address. */
  readonly loginPerAccountAndAddress: Limit;
  /** Wrong passwords for one account from all addresses. */
  readonly loginPerAccount: Limit;
  /** Wrong passwords for all accounts from one address. */
  readonly loginPerAddress: Limit;
  readonly registrationPerAddress: Limit;
  readonly refreshPerAddress: Limit;
  readonly knownAddressDays: number;
}

export const limitVariables = {
  REDIS_URL: redisUrl.optional(),
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: rate.default('10/900').transform(limitOf),
  LOGIN_LIMIT_PER_ACCOUNT: rate.default('100/900').transform(limitOf),
  LOGIN_LIMIT_PER_ADDRESS: rate.default('1000/900').transform(limitOf),
  REGISTRATION_LIMIT_PER_ADDRESS: rate.default('1000/3600').transform(limitOf),
  REFRESH_LIMIT_PER_ADDRESS: rate.default('6000/60').transform(limitOf),
  KNOWN_ADDRESS_DAYS: wholeNumber(1, 365).default(30),
};

type LimitValues = Record<Exclude<keyof typeof limitVariables, 'REDIS_URL' | 'KNOWN_ADDRESS_DAYS'>, Limit> & {
  KNOWN_ADDRESS_DAYS: number;
};

export function limitsOf(value: LimitValues): Limits {
  return {
    loginPerAccountAndAddress: value.LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS,
    loginPerAccount: value.LOGIN_LIMIT_PER_ACCOUNT,
    loginPerAddress: value.LOGIN_LIMIT_PER_ADDRESS,
    registrationPerAddress: value.REGISTRATION_LIMIT_PER_ADDRESS,
    refreshPerAddress: value.REFRESH_LIMIT_PER_ADDRESS,
    knownAddressDays: value.KNOWN_ADDRESS_DAYS,
  };
}

function limitOf(text: string): Limit {
  const [points = 0, seconds = 0] = text.split('/').map(Number);
  return { points, seconds };
}
