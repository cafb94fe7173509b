import { printTable } from '../tools/table.js';
import type { Judge } from './judge.js';
import type { Progress } from './lane.js';
import { MAX_GROWTH_MEGABYTES, type MemoryWatch } from './service.js';

const PROGRESS_INTERVAL_MS = 5_000;

/** What is wrong, or undefined, by the name of what was judged. */
type Verdicts = ReadonlyMap<string, string | undefined>;

interface Totals {
  readonly seed: number;
  readonly requests: number;
  /** The number of log lines. */
  readonly lines: number;
  readonly memory: MemoryWatch;
}

/**
 * Prints the progress on stderr.
 * @returns a function that stops it
 */
export function showProgress(progress: Progress, total: number): () => void {
  const startedAt = Date.now();
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    process.stderr.write(`${progress.requests} of about ${total} requests after ${seconds} s\n`);
  }, PROGRESS_INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/** Prints the number of responses by operation and status. */
export function printCounts({ counts, busy }: Judge, { seed, requests, lines, memory }: Totals): void {
  const statuses = [...new Set([...counts.values()].flatMap((ofOne) => Object.keys(ofOne)))].sort();
  const rows = [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
  printTable(
    ['operation', ...statuses],
    rows.map(([id, ofOne]) => [id, ...statuses.map((status) => ofOne[status] ?? '')]),
  );
  console.log(`\nseed ${seed}: ${requests} requests, ${lines} lines of log, ${busy} times 503 hashing_busy`);
  const { before = 'unknown', after = 'unknown' } = memory;
  console.log(
    `resident memory: ${before} MB at most while warming up, ${after} MB after a rest (allowed: +${MAX_GROWTH_MEGABYTES} MB)\n`,
  );
}

/** @returns the exit code */
export function printVerdicts(verdicts: Verdicts): number {
  const failures = [...verdicts].filter(([, wrong]) => wrong !== undefined);
  for (const [name, wrong] of failures) console.log(`FAILED ${name}\n  ${wrong}\n`);
  console.log(`${verdicts.size - failures.length} passed, ${failures.length} failed`);
  return failures.length > 0 ? 1 : 0;
}
