import { DEFAULT_START_TIMEOUT_SECONDS } from '../common/start-watch.js';
import { availableParallelism } from 'node:os';

// Limits that no variable sets. Those that tests replace are properties of the Environment: tests of the application pass
// others to parseEnvironment, and a test that starts a process preloads tools/replace-settings.ts into it.

/** How long two keys of one credential may be valid at once: a year. */
export const MAX_OVERLAP_HOURS = 8_760;
export const DEFAULT_OVERLAP_HOURS = 24;

/** In one call. A call costs less than a millisecond before its key is verified. */
export const MAX_REVOKED_KEYS = 500;

/** A live key that was not used for this long is reported as unused. */
export const UNUSED_DAYS = 30;
/** A live key that expires within this time is reported as expiring. */
export const EXPIRY_NOTICE_DAYS = 14;

/** A call that revokes waits for the lease, so a longer one would delay its caller too much. */
export const MAX_LEASE_MS = 5_000;

/** An IPv6 /48 holds 65,536 networks of /64, and may be one attacker or a whole office. */
export const SITE_BUCKET_FACTOR = 16;

/** The highest cost of our own hashes: one takes 3 s of a core. */
export const MAX_BCRYPT_COST = 16;

/**
 * At most this many attempts in a window, which starts with the first attempt. Each limit by network counts an IPv4
 * address or an IPv6 /64, and an IPv6 /48 with up to {@link SITE_BUCKET_FACTOR} times the points.
 */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/** Settings that an operator has no reason to change, by the number of workers and the delay of a stop. */
export function computeFixedSettings(given: { readonly WORKERS: number; readonly SHUTDOWN_DELAY_MS: number }) {
  return {
    /** A request waits this long for a connection, and is then answered 503. */
    databaseConnectTimeoutMs: 2_000,
    /** One statement, or one lock, may take this long; then the answer is 503. */
    databaseStatementTimeoutMs: 3_000,
    healthTimeoutMs: 1_000,
    /** How long a start may go without progress. A migration on which PostgreSQL works is progress. */
    startTimeoutSeconds: DEFAULT_START_TIMEOUT_SECONDS,
    /** From SIGTERM to a forced exit: the requests in flight get 13 s after the delay. */
    shutdownDeadlineMs: given.SHUTDOWN_DELAY_MS + 13_000,
    /** Threads of one process that hash passwords: the workers share the cores. */
    hashThreads: Math.ceil(availableParallelism() / given.WORKERS),
    /** Requests precede hashes when all cores are busy (Linux only). */
    hashNiceness: 10,
    /** Passwords that may wait in one process: workers divide the queue of 100 as they divide the threads. */
    hashQueueLimit: Math.ceil(100 / given.WORKERS),
    /** A login beyond it ends the user's oldest session. */
    sessionLimitPerUser: 100,
    auditSealIntervalSeconds: 5,
    purgeIntervalMinutes: 15,
    /** Wrong codes of second factors, from all addresses together. */
    secondFactorLimitPerAccount: { points: 5, seconds: 900 },
    /** Answers to second factors, logins with passkeys and renamings of passkeys, also good ones. */
    secondFactorLimitPerAddress: { points: 1_000, seconds: 900 },
    /** Logins and registrations that a full password queue refused. */
    hashingBusyLimitPerAddress: { points: 200, seconds: 60 },
    adminKeyLimitPerAddress: { points: 20, seconds: 900 },
    /** Requests for a link by e-mail (password reset, verification, change of address) from one address. */
    mailLimitPerAddress: { points: 300, seconds: 3_600 },
    /** Requests for a link by e-mail to one address, whether it has an account or not. */
    mailLimitPerAccount: { points: 10, seconds: 3_600 },
    /** Wrong enrolment codes, of one network and of all together (docs/throttling.md has the arithmetic). */
    enrolmentLimitPerAddress: { points: 20, seconds: 3_600 },
    enrolmentLimit: { points: 1_000, seconds: 3_600 },
    /** Tokens of links that are presented, also valid ones. */
    linkLimitPerAddress: { points: 1_000, seconds: 3_600 },
  };
}

export type FixedSettings = Readonly<ReturnType<typeof computeFixedSettings>>;

const REPLACED_SETTINGS = Symbol.for('platform-auth.replaced-settings');
/**
 * Always empty in an operator's process: only tools/replace-settings.ts, which no image contains, writes to it. One object for
 * the process, because a bundle has its own copy of this module.
 */
export const replacedSettings = ((globalThis as Record<symbol, unknown>)[REPLACED_SETTINGS] ??=
  {}) as Partial<FixedSettings>;
