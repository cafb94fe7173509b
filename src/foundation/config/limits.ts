// Limits that no variable sets. Those that tests replace are properties of the Environment: tests of the application
// pass others to parseEnvironment, and a test of a process preloads tools/replace-settings.ts.

import { DEFAULT_START_TIMEOUT_SECONDS } from '../common/start-watch.js';
import { availableParallelism } from 'node:os';

/** Maximum overlap of two keys of one credential: a year. */
export const MAX_OVERLAP_HOURS = 8_760;
export const DEFAULT_OVERLAP_HOURS = 24;

/** Maximum number of digests in one call that identifies keys; the command line sends more in several calls. */
export const MAX_DIGESTS = 32;
/** Maximum number of keys in one call that revokes leaked keys. */
export const MAX_REVOKED_KEYS = 500;

/** A live key counts as unused after this many days without a use. */
export const UNUSED_DAYS = 30;
/** A live key counts as expiring when it expires within this many days. */
export const EXPIRY_NOTICE_DAYS = 14;

/** A revoking call waits for the lease, so a longer lease would delay its caller too much. */
export const MAX_LEASE_MS = 5_000;

/** An IPv6 /48 may be one attacker or a whole office: it gets this many times the points of one network. */
export const SITE_BUCKET_FACTOR = 16;

/** How long the hourly counts are kept: five weeks, so that a day can be compared with that of the month before. */
export const HISTORY_DAYS = 35;

/** The highest bcrypt cost of our own hashes, at which one takes 3 s of a core. */
export const MAX_BCRYPT_COST = 16;

/**
 * At most `points` attempts in a window that starts with the first one. A limit by network counts an IPv4 address or an
 * IPv6 /64, and an IPv6 /48 with up to {@link SITE_BUCKET_FACTOR} times the points.
 */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/** Computes settings that an operator has no reason to change. */
export function computeFixedSettings(given: { readonly WORKERS: number; readonly SHUTDOWN_DELAY_MS: number }) {
  return {
    /** A request that waits longer for a connection is answered with 503. */
    databaseConnectTimeoutMs: 2_000,
    /** A request whose statement, or lock, takes longer is answered with 503. */
    databaseStatementTimeoutMs: 3_000,
    healthTimeoutMs: 1_000,
    /** Maximum time of a start without progress. A migration on which PostgreSQL works is progress. */
    startTimeoutSeconds: DEFAULT_START_TIMEOUT_SECONDS,
    /**
     * From SIGTERM to a forced exit. After the delay, requests in flight have half of the 13 s until they are cut off, and
     * the rest closes what they used.
     */
    shutdownDeadlineMs: given.SHUTDOWN_DELAY_MS + 13_000,
    /** Number of threads of one process that hash passwords. The workers share the cores. */
    hashThreads: Math.ceil(availableParallelism() / given.WORKERS),
    /** Gives requests precedence over hashes when all cores are busy (Linux only). */
    hashNiceness: 10,
    /** Number of passwords that may wait in one process. The workers share a queue of 100, as they share the cores. */
    hashQueueLimit: Math.ceil(100 / given.WORKERS),
    /** A further login ends the user's oldest session. */
    sessionLimitPerUser: 100,
    /** Valid keys of one kind that one process remembers. */
    maxCachedKeys: 100_000,
    auditSealIntervalSeconds: 5,
    /** How long a process holds a subscription to events after its last poll: longer than the longest wait. */
    eventHoldSeconds: 30,
    purgeIntervalMinutes: 15,
    /** Counts wrong codes of second factors, at all networks together. */
    secondFactorLimitPerAccount: { points: 5, seconds: 900 },
    /** Counts answers to second factors, logins with passkeys and renamings of passkeys, right ones too. */
    secondFactorLimitPerAddress: { points: 1_000, seconds: 900 },
    /** Counts logins and registrations that a full password queue refused. */
    hashingBusyLimitPerAddress: { points: 200, seconds: 60 },
    adminKeyLimitPerAddress: { points: 20, seconds: 900 },
    /** Counts requests for links by e-mail from one network: password resets and verifications. */
    mailLimitPerAddress: { points: 300, seconds: 3_600 },
    /** Counts requests for links by e-mail to one address, whether it has an account or not. */
    mailLimitPerAccount: { points: 10, seconds: 3_600 },
    /** Counts wrong enrolment codes, at one network and at all together (docs/throttling.md has the arithmetic). */
    enrolmentLimitPerAddress: { points: 20, seconds: 3_600 },
    enrolmentLimit: { points: 1_000, seconds: 3_600 },
    /** Counts presented tokens of links, valid ones too. */
    linkLimitPerAddress: { points: 1_000, seconds: 3_600 },
  };
}

export type FixedSettings = Readonly<ReturnType<typeof computeFixedSettings>>;

const REPLACED_SETTINGS = Symbol.for('platform-auth.replaced-settings');
/**
 * Always empty in production, because only tools/replace-settings.ts writes to it and no image contains that file.
 * Global to the process, because a bundle has its own copy of this module.
 */
export const replacedSettings = ((globalThis as Record<symbol, unknown>)[REPLACED_SETTINGS] ??=
  {}) as Partial<FixedSettings>;

/** The issuer of delegated tokens is JWT_ISSUER and this, so that everything that does not know delegation refuses them. */
export const DELEGATED_SUFFIX = '/delegated';
/** How many services may pass a user on, one to the next. */
export const MAX_DELEGATION_LINKS = 4;
export const DELEGATION_ISSUER_DETAIL =
  'needs a JWT_ISSUER that ends neither in / nor in /delegated: the issuer of delegated tokens begins with it';

export function isDelegationIssuer(issuer: string): boolean {
  return !issuer.endsWith('/') && !issuer.endsWith(DELEGATED_SUFFIX);
}
