import { MARGIN_MEGABYTES } from './memory.js';

const INTERVAL_MS = 5_000;

/** Says on stderr how far it is. @returns a function that ends that */
export function showProgress(progress, total) {
  const startedAt = Date.now();
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    process.stderr.write(`${progress.requests} of about ${total} requests after ${seconds} s\n`);
  }, INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/** A table of what came back, so that one can see what was reached. */
export function printCounts({ counts, busy }, { seed, requests, lines, memory }) {
  const statuses = [...new Set([...counts.values()].flatMap((ofOne) => Object.keys(ofOne)))].sort();
  console.log(`| operation | ${statuses.join(' | ')} |\n| --- |${' ---: |'.repeat(statuses.length)}`);
  for (const [id, ofOne] of [...counts].sort()) {
    console.log(`| ${id} | ${statuses.map((status) => ofOne[status] ?? '').join(' | ')} |`);
  }
  console.log(`\nseed ${seed}: ${requests} requests, ${lines} lines of log, ${busy} times 503 hashing_busy`);
  const { before = 'unknown', after = 'unknown' } = memory;
  console.log(
    `resident memory: ${before} MB at most while warming up, ${after} MB after a rest (allowed: +${MARGIN_MEGABYTES} MB)\n`,
  );
}

/** @returns the exit code */
export function printVerdicts(verdicts) {
  const failures = [...verdicts].filter(([, wrong]) => wrong !== undefined);
  for (const [name, wrong] of failures) console.log(`FAILED ${name}\n  ${wrong}\n`);
  console.log(`${verdicts.size - failures.length} passed, ${failures.length} failed`);
  return failures.length > 0 ? 1 : 0;
}
