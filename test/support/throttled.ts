import type { Response } from 'supertest';
import { problems, toProblemType } from '../../src/foundation/problems/problems.js';

/** The limit that a 429 reports. */
interface Throttled {
  readonly policy: string;
  readonly points: number;
  readonly windowSeconds: number;
  readonly retryAfterSeconds: number;
}

/** Expects a whole 429, with its header fields (draft-ietf-httpapi-ratelimit-headers). */
export function expectThrottled({ status, headers, body }: Response): Throttled {
  const { code, type } = body as { code?: string; type?: string };
  const { tooManyRequests } = problems;
  expect({ status, code, type }).toEqual({
    status: 429,
    code: tooManyRequests.code,
    type: toProblemType(tooManyRequests),
  });
  expect(headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(headers['www-authenticate']).toBeUndefined();
  const policy = /^"([a-z-]+)";q=(\d+);w=(\d+)$/.exec(headers['ratelimit-policy'] ?? '')!;
  const state = /^"([a-z-]+)";r=0;t=(\d+)$/.exec(headers.ratelimit ?? '')!;
  expect(state[1]).toBe(policy[1]);
  expect(headers['retry-after']).toBe(state[2]);
  const [points, windowSeconds, retryAfterSeconds] = [Number(policy[2]), Number(policy[3]), Number(state[2])];
  expect(retryAfterSeconds).toBeGreaterThanOrEqual(1);
  expect(retryAfterSeconds).toBeLessThanOrEqual(windowSeconds);
  return { policy: policy[1]!, points, windowSeconds, retryAfterSeconds };
}

/** The number of responses by status. */
export function countByStatus(answers: Response[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
