import { setTimeout as sleep } from 'node:timers/promises';
import type { Response } from 'supertest';

const MAX_CALLS = 20;
/** A busy machine needs a moment: a lost connection or lease comes back meanwhile. */
const PAUSE_MS = 100;

/** Repeats a call while the service is too busy to decide and answers 503; at most twenty times. */
export async function untilVerdict(call: () => PromiseLike<Response>): Promise<Response> {
  let answer = await call();
  for (let calls = 1; answer.status === 503 && calls < MAX_CALLS; calls += 1) {
    await sleep(PAUSE_MS);
    answer = await call();
  }
  return answer;
}
