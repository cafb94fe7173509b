import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 20;

/**
 * Polls until the condition holds. The timeout only ends a failing test.
 * @param what for the error; a function reports what was found last
 */
export async function eventually(
  what: string | (() => string),
  isSo: () => boolean | Promise<boolean>,
  boundMs = 60_000,
): Promise<void> {
  const end = Date.now() + boundMs;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`It never happened that ${typeof what === 'string' ? what : what()}`);
    await sleep(POLL_MS);
  }
}
