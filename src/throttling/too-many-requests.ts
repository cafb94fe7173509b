import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import type { SecurityEvent } from '../common/security-event.js';
import type { Limit } from '../config/limits.js';

const MAX_LOGGED = 100;

/** What one row counts: tries of one kind for one account, for one network, or for both. */
export interface Share {
  /** Of the limit: in the header, in the log, and before the colon of the key. */
  readonly name: string;
  readonly key: string;
  readonly limit: Limit;
}

/** The header fields of draft-ietf-httpapi-ratelimit-headers: the limit, and what is left of it. */
export function rateLimitHeaders({ name, limit }: Share, remaining: number, forMs: number): Record<string, string> {
  return {
    'RateLimit-Policy': `"${name}";q=${limit.points};w=${limit.seconds}`,
    RateLimit: `"${name}";r=${remaining};t=${secondsOf(forMs)}`,
  };
}

/**
 * 429 with the time to wait for.
 * @param count refusals of this replica in this window: after the hundredth only each power of two is logged
 */
export function tooManyRequests(event: SecurityEvent, share: Share, forMs: number, count: number): ProblemException {
  return new ProblemException(problems.tooManyRequests, {
    refusal: { event, reason: share.name, ...(count > MAX_LOGGED && { count }) },
    isLogged: count <= MAX_LOGGED || Number.isInteger(Math.log2(count)),
    headers: { 'Retry-After': String(secondsOf(forMs)), ...rateLimitHeaders(share, 0, forMs) },
  });
}

function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
