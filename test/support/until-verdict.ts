import type { Response } from 'supertest';

const MAX_CALLS = 10;

/** Repeats a call while the service is too busy to decide and answers 503; at most ten times. */
export async function untilVerdict(call: () => PromiseLike<Response>): Promise<Response> {
  let answer = await call();
  for (let calls = 1; answer.status === 503 && calls < MAX_CALLS; calls += 1) answer = await call();
  return answer;
}
