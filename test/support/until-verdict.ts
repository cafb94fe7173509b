import type { Response } from 'supertest';
import { repeatWhile } from '../../tools/repeat-while.js';

/** Repeats a call while the service is too busy to decide and answers 503: a lost connection or lease comes back meanwhile. */
export function untilVerdict(call: () => PromiseLike<Response>): Promise<Response> {
  return repeatWhile(({ status }) => status === 503, call);
}

/** Expects this verdict; see {@link untilVerdict}. */
export async function expectVerdict(status: number, call: () => PromiseLike<Response>): Promise<Response> {
  const answer = await untilVerdict(call);
  expect({ status: answer.status, body: answer.body as unknown }).toMatchObject({ status });
  return answer;
}
