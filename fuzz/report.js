import { MAX_GROWTH_MEGABYTES } from './memory.js';

const PROGRESS_INTERVAL_MS = 5_000;

/** Prints the progress on stderr. @returns a function that stops it */
export function showProgress(progress, total) {
  const startedAt = Date.now();
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    process.stderr.write(`${progress.requests} of about ${total} requests after ${seconds} s\n`);
  }, PROGRESS_INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/** Prints the number of responses by operation and status. */
export function printCounts({ counts, busy }, { seed, requests, lines, memory }) {
  const statuses = [...new Set([...counts.values()].flatMap((ofOne) => Object.keys(ofOne)))].sort();
  console.log(`| operation | ${statuses.join(' | ')} |\n| --- |${' ---: |'.repeat(statuses.length)}`);
  for (const [id, ofOne] of [...counts].sort()) {
    console.log(`| ${id} | ${statuses.map((status) => ofOne[status] ?? '').join(' | ')} |`);
  }
  console.log(`\nseed ${seed}: ${requests} requests, ${lines} lines of log, ${busy} times 503 hashing_busy`);
  const { before = 'unknown', after = 'unknown' } = memory;
  console.log(
    `resident memory: ${before} MB at most while warming up, ${after} MB after a rest (allowed: +${MAX_GROWTH_MEGABYTES} MB)\n`,
  );
}

/** @returns the exit code */
export function printVerdicts(verdicts) {
  const failures = [...verdicts].filter(([, wrong]) => wrong !== undefined);
  for (const [name, wrong] of failures) console.log(`FAILED ${name}\n  ${wrong}\n`);
  console.log(`${verdicts.size - failures.length} passed, ${failures.length} failed`);
  return failures.length > 0 ? 1 : 0;
}
