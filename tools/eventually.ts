import { setTimeout as sleep } from 'node:timers/promises';

const MIN_POLL_INTERVAL_MS = 20;
const MAX_POLL_INTERVAL_MS = 100;
const BACKOFF_FACTOR = 1.1;

/**
 * Polls until the condition holds, less often after each attempt, because the attempts slow down what they wait for. The
 * timeout only ends a failing test.
 * @param what for the error; a function reports what was found last
 */
export async function eventually(
  what: string | (() => string),
  isSo: () => boolean | Promise<boolean>,
  boundMs = 60_000,
): Promise<void> {
  const end = Date.now() + boundMs;
  let pauseMs = MIN_POLL_INTERVAL_MS;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`It never happened that ${typeof what === 'string' ? what : what()}`);
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * BACKOFF_FACTOR, MAX_POLL_INTERVAL_MS);
  }
}
