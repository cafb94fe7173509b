import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 20;

/** Polls until the condition holds. The timeout ends a failing test; it does not measure a passing one. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  boundMs = 60_000,
): Promise<void> {
  const end = Date.now() + boundMs;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`It never happened that ${what}`);
    await sleep(POLL_MS);
  }
}
