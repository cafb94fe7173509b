import { percentile } from '../tools/statistics.js';
import type { Load } from './measure.js';

/**
 * Repeats the work on all items at the same time.
 * @param work returns whether it counts
 */
export function repeatConcurrently<Item>(items: readonly Item[], work: (item: Item) => Promise<boolean>): Load {
  return async (seconds) => {
    const startedAt = performance.now();
    const cpuBefore = process.cpuUsage();
    const latencies: number[] = [];
    const repeat = async (item: Item): Promise<void> => {
      for (let from = performance.now(); from - startedAt < seconds * 1_000;) {
        const isCounted = await work(item);
        const now = performance.now();
        if (isCounted) latencies.push(now - from);
        from = now;
      }
    };
    await Promise.all(items.map(repeat));
    return {
      throughput: (1_000 * latencies.length) / (performance.now() - startedAt),
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
      cpu: measureCpuSince(cpuBefore) / latencies.length,
    };
  };
}

/** @returns the CPU time of this process since `before`, in microseconds */
export function measureCpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
