import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 20;

/** Asks again until the answer is yes. The bound is there to end a test that fails, not to measure one that passes. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  boundMs = 20_000,
): Promise<void> {
  const end = Date.now() + boundMs;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`It never happened that ${what}`);
    await sleep(POLL_MS);
  }
}
