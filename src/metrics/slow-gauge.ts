import type { ReadGauge } from './metrics-registry.js';

const TTL_MS = 30_000;
const TIMEOUT_MS = 1_000;

/**
 * Caches a gauge that costs a query: queries at most twice a minute however often Prometheus scrapes, waits at most one
 * second, and returns undefined when the query failed.
 */
export function createSlowGauge(query: () => Promise<number>): ReadGauge {
  let value: Promise<number | undefined> | undefined;
  let queriedAt = 0;
  return () => {
    const now = performance.now();
    if (value === undefined || now - queriedAt >= TTL_MS) {
      queriedAt = now;
      value = query().catch(() => undefined);
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
