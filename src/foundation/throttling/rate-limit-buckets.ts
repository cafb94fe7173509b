import { Injectable } from '@nestjs/common';
import type { Networks } from '../common/network.js';
import type { RefusalEventName, RefusalReason } from '../common/security-events.js';
import { Environment } from '../config/environment.js';
import { SITE_BUCKET_FACTOR, type Limit } from '../config/limits.js';
import { computeMac, deriveKey } from '../crypto/secret.js';

export type ThrottleEvent = Extract<RefusalEventName, `${string}.throttled`>;

type LimitVariable = { [Name in keyof Environment]: Environment[Name] extends Limit ? Name : never }[keyof Environment];

interface Policy {
  readonly event: ThrottleEvent;
  /** Name of the variable that sets the limit, or a limit that no variable sets. */
  readonly limit: LimitVariable | Limit;
  /** The limit of the same account at all networks together, of which one IPv6 /48 gets only a part. */
  readonly within?: LimitVariable;
}

/** Longer than any window that a variable can set (a day). */
export const LONGEST_WINDOW_SECONDS = 7 * 86_400;

/**
 * Every limit. Its name appears in headers, in the log and in the keys of its rows; docs/throttling.md explains each.
 */
const POLICIES = {
  'login-account-address': {
    event: 'user.login.throttled',
    limit: 'loginLimitPerAccountAndAddress',
    within: 'loginLimitPerAccount',
  },
  'login-account': { event: 'user.login.throttled', limit: 'loginLimitPerAccount' },
  'login-address': { event: 'user.login.throttled', limit: 'loginLimitPerAddress' },
  'hashing-busy': { event: 'user.login.throttled', limit: 'hashingBusyLimitPerAddress' },
  'second-factor-account': { event: 'user.second_factor.throttled', limit: 'secondFactorLimitPerAccount' },
  // Three of a million codes are valid at a time, so 50 guesses a week find one within a year with a probability of 0.8
  // %.
  'second-factor-week': {
    event: 'user.second_factor.throttled',
    limit: { points: 50, seconds: LONGEST_WINDOW_SECONDS },
  },
  'second-factor-address': { event: 'user.second_factor.throttled', limit: 'secondFactorLimitPerAddress' },
  registration: { event: 'user.registration.throttled', limit: 'registrationLimitPerAddress' },
  refresh: { event: 'session.refresh.throttled', limit: 'refreshLimitPerAddress' },
  mail: { event: 'user.mail.throttled', limit: 'mailLimitPerAddress' },
  'mail-account': { event: 'user.mail.throttled', limit: 'mailLimitPerAccount' },
  link: { event: 'user.link.throttled', limit: 'linkLimitPerAddress' },
  'enrolment-address': { event: 'node.enrolment.throttled', limit: 'enrolmentLimitPerAddress' },
  enrolment: { event: 'node.enrolment.throttled', limit: 'enrolmentLimit' },
  'node-rotation': { event: 'node.rotation.throttled', limit: { points: 20, seconds: 3_600 } },
  'household-action': { event: 'household.action.throttled', limit: { points: 60, seconds: 3_600 } },
  'invitation-account': { event: 'household.invitation.throttled', limit: { points: 10, seconds: 3_600 } },
  'invitation-address': { event: 'household.invitation.throttled', limit: { points: 10, seconds: 3_600 } },
  'console-login': { event: 'admin.key.throttled', limit: { points: 60, seconds: 3_600 } },
  'admin-key': { event: 'admin.key.throttled', limit: 'adminKeyLimitPerAddress' },
} as const satisfies Record<RefusalReason<ThrottleEvent>, Policy>;

type PolicyName = keyof typeof POLICIES;

/** One row of `throttle_windows`: attempts of one account, of one network, or of one account at one network. */
export interface RateLimitBucket {
  readonly name: PolicyName;
  readonly event: ThrottleEvent;
  readonly key: string;
  readonly limit: Limit;
  /** Whether the bucket is removed when an operator removes the throttles of its user. */
  readonly isOfAccount: boolean;
}

interface Subject {
  /** Canonical e-mail address, or id of a user, operator, node or enrolment. Undefined: all accounts count together. */
  readonly account?: string;
  /** Undefined: all networks count together. */
  readonly networks?: Networks;
}

const ALL_NETWORKS: Networks = [''];
/** At least this many sites (IPv6 /48) are needed to exhaust the limit of an account. */
const SITES_PER_ACCOUNT = 4;

/** Creates the buckets of a policy, with the keys of their rows in `throttle_windows`. */
@Injectable()
export class RateLimitBuckets {
  private readonly digestKey;

  constructor(private readonly environment: Environment) {
    this.digestKey = deriveKey(environment.masterKey, 'platform-auth/throttle-keys/v1');
  }

  /** @returns one bucket for each network, the narrowest first */
  createBuckets(
    name: PolicyName,
    { account, networks = ALL_NETWORKS }: Subject,
  ): [RateLimitBucket, ...RateLimitBucket[]] {
    const { event, limit: given, within }: Policy = POLICIES[name];
    const limit = typeof given === 'string' ? this.environment[given] : given;
    const siteLimit = computeSiteLimit(limit, within && this.environment[within]);
    const [narrowest, ...sites] = networks;
    const createBucket = (network: string, limit: Limit): RateLimitBucket => ({
      name,
      event,
      key: this.createKey(name, network, account),
      limit,
      isOfAccount: account !== undefined,
    });
    return [createBucket(narrowest, limit), ...sites.map((site) => createBucket(site, siteLimit))];
  }

  /** A key contains an HMAC, so that a dump reveals neither accounts nor networks (ASVS 14.2). */
  createKey(name: PolicyName | 'known-address', network: string, account?: string): string {
    const counted = account === undefined ? network : `${account}\n${network}`;
    return `${name}:${computeMac(this.digestKey, counted).toString('base64url')}`;
  }
}

/**
 * Computes the limit of a site (an IPv6 /48), whose networks share it.
 * @param total the limit of the account at all sites together, of which one site gets only a share
 */
function computeSiteLimit({ points, seconds }: Limit, total: Limit | undefined): Limit {
  const most = points * SITE_BUCKET_FACTOR;
  if (!total) return { points: most, seconds };
  const share = Math.max(points, Math.floor(total.points / SITES_PER_ACCOUNT));
  return { points: Math.min(most, share), seconds: Math.max(seconds, total.seconds) };
}
