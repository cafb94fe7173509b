import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { PasswordHasher } from '../crypto/password-hasher.js';
import type { Database } from '../database/database.js';
import type { Log } from '../logging/log.js';
import { PlainHistogram } from './plain-histogram.js';
import type { RequestCounts } from './request-counts.js';
import type { ScrapedGauges } from './scraped-gauges.js';
import type { LabelValues } from './tally.js';

/** Before the name of every metric. */
export const PREFIX = 'platform_auth_';

export interface Sources {
  readonly counts: RequestCounts;
  readonly gauges: ScrapedGauges;
  readonly hasher: PasswordHasher;
  readonly database: Database;
  readonly log: Log;
}

/** Every metric of one application, in a registry of its own. Values are read when somebody looks. */
export function expositionOf({ counts, gauges, hasher, database, log }: Sources): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: PREFIX });
  requestMetrics(registry, counts);
  hashingMetrics(registry, hasher);
  databaseMetrics(registry, database);
  logMetrics(registry, log, counts);
  for (const { name, help, read } of gauges.all()) gauge(registry, name, help, read);
  return registry;
}

function requestMetrics(registry: Registry, { requests, durations, verdicts, flowRefusals }: RequestCounts): void {
  const labels = ['route', 'method', 'status', 'door'];
  counter(registry, 'http_requests_total', 'Answered requests; 499 where the caller had left.', labels, () =>
    requests.entries(),
  );
  const name = `${PREFIX}http_request_duration_seconds`;
  new PlainHistogram(registry, name, 'From the first byte of a request to its answer.', durations);
  counter(registry, 'verdicts_total', 'What the doors found when they looked.', ['door', 'reason'], () =>
    verdicts.entries(),
  );
  counter(registry, 'flow_refusals_total', 'Refused logins and refreshes.', ['event', 'reason'], () =>
    flowRefusals.entries(),
  );
}

function hashingMetrics(registry: Registry, hasher: PasswordHasher): void {
  gauge(registry, 'hashing_queued', 'Passwords that wait for a thread.', () => hasher.load.queued);
  gauge(registry, 'hashing_queue_limit', 'Passwords that may wait.', () => hasher.load.queueLimit);
  gauge(registry, 'hashing_running', 'Passwords that a thread works on.', () => hasher.load.running);
  gauge(registry, 'hashing_threads_limit', 'Threads that may work.', () => hasher.load.threadLimit);
}

function databaseMetrics(registry: Registry, database: Database): void {
  gauge(registry, 'database_connections', 'Open connections of the pool.', () => database.pool.total);
  gauge(registry, 'database_connections_idle', 'Open connections at rest.', () => database.pool.idle);
  gauge(registry, 'database_connections_limit', 'Most connections of the pool.', () => database.pool.limit);
  const stalled = 'Connections whose statement was given up, and which PostgreSQL has not answered yet.';
  gauge(registry, 'database_connections_stalled', stalled, () => database.pool.stalled);
  gauge(registry, 'database_requests_waiting', 'Who waits for a connection.', () => database.pool.waiting);
}

function logMetrics(registry: Registry, log: Log, counts: RequestCounts): void {
  const delivers = (): number | undefined => (log.isDelivering === undefined ? undefined : Number(log.isDelivering));
  gauge(registry, 'log_delivering', '1: the logging service takes lines. 0: the console has them.', delivers);
  gauge(registry, 'log_lines_waiting', 'Log lines that wait for delivery.', () => log.waitingLines);
  const undelivered = 'Log lines that were meant for the logging service and went to the console.';
  counter(registry, 'log_lines_undelivered_total', undelivered, [], () => [[[], log.undeliveredLines]]);
  const validations = 'Validations of our own deliveries, asked for by the logging service: counted, never shipped.';
  counter(registry, 'log_delivery_validations_total', validations, [], () => [[[], counts.deliveryValidations]]);
}

type Read = () => number | undefined | Promise<number | undefined>;

function gauge(registry: Registry, name: string, help: string, read: Read): void {
  new Gauge({
    name: PREFIX + name,
    help,
    registers: [registry],
    async collect() {
      const value = await read();
      if (value === undefined) this.remove();
      else this.set(value);
    },
  });
}

function counter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  entries: () => Iterable<readonly [LabelValues, number]>,
): void {
  new Counter({
    name: PREFIX + name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const [values, count] of entries()) {
        this.inc(Object.fromEntries(labelNames.map((label, index) => [label, values[index] ?? ''])), count);
      }
    },
  });
}
