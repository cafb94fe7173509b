import type { Response } from 'supertest';
import { untilVerdict } from '../../tools/repeat-while.js';

export { untilVerdict };

/** Expects this verdict, and repeats a 503 ({@link untilVerdict}). */
export async function expectVerdict(status: number, call: () => PromiseLike<Response>): Promise<Response> {
  const answer = await untilVerdict(call);
  expect({ status: answer.status, body: answer.body as unknown }).toMatchObject({ status });
  return answer;
}
