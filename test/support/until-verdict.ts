import type { Response } from 'supertest';
import { repeatWhile } from '../../tools/repeat-while.js';

/** Repeats a call while the service is too busy to decide and answers 503: a lost connection or lease comes back meanwhile. */
export function untilVerdict(call: () => PromiseLike<Response>): Promise<Response> {
  return repeatWhile(({ status }) => status === 503, call);
}
