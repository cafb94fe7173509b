import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import type { SecurityEvent } from '../common/security-event.js';
import type { Budget } from './budget.js';

/** A budget of which nothing is left, and for how long. */
export interface Exhausted {
  readonly budget: Budget;
  readonly forMs: number;
}

/** The header fields of draft-ietf-httpapi-ratelimit-headers: the limit, and what is left of it. */
export function rateLimitHeaders({ name, limit }: Budget, remaining: number, forMs: number): Record<string, string> {
  return {
    'RateLimit-Policy': `"${name}";q=${limit.points};w=${limit.seconds}`,
    RateLimit: `"${name}";r=${remaining};t=${secondsOf(forMs)}`,
  };
}

/** 429 with the time to wait for: the longest, if several budgets are exhausted. */
export function tooManyRequests(event: SecurityEvent, exhausted: [Exhausted, ...Exhausted[]]): ProblemException {
  const { budget, forMs } = exhausted.reduce((longest, one) => (one.forMs > longest.forMs ? one : longest));
  return new ProblemException(problems.tooManyRequests, {
    refusal: { event, reason: budget.name },
    headers: { 'Retry-After': String(secondsOf(forMs)), ...rateLimitHeaders(budget, 0, forMs) },
  });
}

function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
