import { setTimeout as sleep } from 'node:timers/promises';

interface Repetition {
  readonly maxCalls?: number;
  readonly pauseMs?: number;
}

/**
 * Repeats a call while its answer is not a verdict, as on a busy machine.
 * @returns the last answer
 */
export async function repeatWhile<Answer>(
  isUndecided: (answer: Answer) => boolean,
  call: () => PromiseLike<Answer>,
  { maxCalls = 20, pauseMs = 100 }: Repetition = {},
): Promise<Answer> {
  let answer = await call();
  for (let calls = 1; isUndecided(answer) && calls < maxCalls; calls += 1) {
    await sleep(pauseMs);
    answer = await call();
  }
  return answer;
}

/** Repeats a call while the service answers 503: a lost connection or lease comes back. */
export function untilVerdict<Answer extends { readonly status: unknown }>(
  call: () => PromiseLike<Answer>,
): Promise<Answer> {
  return repeatWhile(({ status }) => status === 503, call);
}
