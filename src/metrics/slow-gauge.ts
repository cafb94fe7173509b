import type { ReadGauge } from './metrics-registry.js';

const CACHE_MS = 30_000;
const TIMEOUT_MS = 1_000;

/**
 * For a gauge that costs a query: asks at most twice a minute however often Prometheus scrapes, waits a second at most,
 * and reads as undefined when the question failed.
 */
export function slowGauge(ask: () => Promise<number>): ReadGauge {
  let value: Promise<number | undefined> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (value === undefined || now - askedAt >= CACHE_MS) {
      askedAt = now;
      value = ask().catch(() => undefined);
    }
    return withTimeout(TIMEOUT_MS, value);
  };
}

async function withTimeout<T>(milliseconds: number, answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds);
  });
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
