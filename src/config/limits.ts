import { DEFAULT_START_TIMEOUT_SECONDS } from '../common/start-watch.js';
import { availableParallelism } from 'node:os';

// Limits that no variable sets. Those that tests replace are properties of the Environment: tests of the application pass
// others to parseEnvironment, and a test that starts a process preloads tools/replace-settings.ts into it.

/** How long two keys of one credential may be valid at once: a year. */
export const MAX_OVERLAP_HOURS = 8_760;
/** Unless the rotation says otherwise. */
export const DEFAULT_OVERLAP_HOURS = 24;

/** A call that revokes waits for the lease, so a longer one would delay its caller too much. */
export const MAX_LEASE_MS = 5_000;

/** An IPv6 /48 holds 65,536 networks of /64, and may be one attacker or a whole office. */
export const SITE_BUDGET_FACTOR = 16;

/** The highest cost of our own hashes: one takes 3 s of a core. */
export const MAX_BCRYPT_COST = 16;

/** Passwords that may wait to be hashed, in all workers together. */
const HASH_QUEUE_LIMIT = 100;
/** For the requests in flight, after the delay of a stop. */
const DRAIN_TIMEOUT_MS = 13_000;

/**
 * At most this many attempts in a window, which starts with the first attempt. Each limit by network counts an IPv4
 * address or an IPv6 /64, and an IPv6 /48 with up to {@link SITE_BUDGET_FACTOR} times the points.
 */
export interface Limit {
  readonly points: number;
  readonly seconds: number;
}

/** Settings that an operator has no reason to change, by the number of workers and the delay of a stop. */
export interface FixedSettings {
  /** A request waits this long for a connection, and is then answered 503. */
  readonly databaseConnectTimeoutMs: number;
  /** One statement, or one lock, may take this long; then the answer is 503. */
  readonly databaseStatementTimeoutMs: number;
  readonly healthTimeoutMs: number;
  /** How long a start may go without progress. A migration on which PostgreSQL works is progress. */
  readonly startTimeoutSeconds: number;
  /** From SIGTERM to a forced exit. */
  readonly shutdownDeadlineMs: number;
  /** Threads of one process that hash passwords: the workers share the cores. */
  readonly hashThreads: number;
  /** The share of one process: workers divide the queue as they divide the threads. */
  readonly hashQueueLimit: number;
  /** A login beyond it ends the user's oldest session. */
  readonly sessionLimitPerUser: number;
  readonly auditSealIntervalSeconds: number;
  readonly purgeIntervalMinutes: number;
  /** Wrong codes of second factors, from all addresses together. */
  readonly secondFactorLimitPerAccount: Limit;
  /** Answers to second factors, logins with passkeys and renamings of passkeys, also good ones. */
  readonly secondFactorLimitPerAddress: Limit;
  /** Logins and registrations that a full password queue refused. */
  readonly hashingBusyLimitPerAddress: Limit;
  /** Wrong admin keys. */
  readonly adminKeyLimitPerAddress: Limit;
  /** Requests for a link by e-mail to one address, whether it has an account or not. */
  readonly mailLimitPerAccount: Limit;
  /** Tokens of links that are presented, also valid ones. */
  readonly linkLimitPerAddress: Limit;
}

const REPLACED_SETTINGS = Symbol.for('platform-auth.replaced-settings');
/**
 * Always empty in an operator's process: only tools/replace-settings.ts, which no image contains, writes to it. One object for
 * the process, because a bundle has its own copy of this module.
 */
export const replacedSettings = ((globalThis as Record<symbol, unknown>)[REPLACED_SETTINGS] ??=
  {}) as Partial<FixedSettings>;

interface GivenSettings {
  readonly WORKERS: number;
  readonly SHUTDOWN_DELAY_MS: number;
}

export function computeFixedSettings(given: GivenSettings): FixedSettings {
  return {
    databaseConnectTimeoutMs: 2_000,
    databaseStatementTimeoutMs: 3_000,
    healthTimeoutMs: 1_000,
    startTimeoutSeconds: DEFAULT_START_TIMEOUT_SECONDS,
    shutdownDeadlineMs: given.SHUTDOWN_DELAY_MS + DRAIN_TIMEOUT_MS,
    hashThreads: Math.ceil(availableParallelism() / given.WORKERS),
    hashQueueLimit: Math.ceil(HASH_QUEUE_LIMIT / given.WORKERS),
    sessionLimitPerUser: 100,
    auditSealIntervalSeconds: 5,
    purgeIntervalMinutes: 15,
    secondFactorLimitPerAccount: { points: 5, seconds: 900 },
    secondFactorLimitPerAddress: { points: 1_000, seconds: 900 },
    hashingBusyLimitPerAddress: { points: 200, seconds: 60 },
    adminKeyLimitPerAddress: { points: 20, seconds: 900 },
    mailLimitPerAccount: { points: 10, seconds: 3_600 },
    linkLimitPerAddress: { points: 1_000, seconds: 3_600 },
  };
}
