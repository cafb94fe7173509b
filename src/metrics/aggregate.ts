import { AggregatorRegistry, type Registry } from 'prom-client';
import { PREFIX } from './exposition.js';
import type { Report } from './worker-report.js';

type Aggregator = Report[number]['aggregator'];

/** What is not the sum of all workers, nor as prom-client would have it. */
const AGGREGATORS: Readonly<Record<string, Aggregator>> = {
  // Each counts the same sessions in the same database.
  live_sessions: 'max',
  // Of one machine, and so of one clock.
  clock_skew_seconds: 'max',
  // One that cannot deliver is one too many.
  log_delivering: 'min',
  // The mean of several delays hides the worker that has them.
  nodejs_eventloop_lag_seconds: 'max',
  nodejs_eventloop_lag_stddev_seconds: 'max',
  nodejs_eventloop_lag_p50_seconds: 'max',
  nodejs_eventloop_lag_p90_seconds: 'max',
  nodejs_eventloop_lag_p99_seconds: 'max',
  // A limit of each process.
  process_max_fds: 'min',
  process_start_time_seconds: 'min',
};

/** One exposition of several workers. */
export function aggregate(reports: readonly Report[]): Registry {
  const named = reports.map((report) =>
    report.map((metric) => ({ ...metric, aggregator: AGGREGATORS[bare(metric.name)] ?? metric.aggregator })),
  );
  return AggregatorRegistry.aggregate(named);
}

/** What only rises. It outlives the worker that counted it: a sum that falls would be taken for a new start. */
export function countsOf(report: Report): Report {
  return report.filter(({ type }) => COUNTING.has(String(type)));
}

/** The same as a report, to be added to others. */
export function sumOf(reports: readonly Report[]): Report {
  return aggregate(reports).getMetricsAsArray() as Report;
}

const COUNTING = new Set(['counter', 'histogram']);

function bare(name: string): string {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
}
