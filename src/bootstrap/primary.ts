import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { StartWatch } from '../common/start-watch.js';
import type { Environment } from '../config/environment.js';
import { migrate, retryUntilReachable } from '../database/migrate.js';
import { Log } from '../logging/log.js';
import { MetricsEndpoint } from '../metrics/metrics-server.js';
import { PREFIX } from '../metrics/metrics-registry.js';
import type { OpenPorts } from './serve-app.js';
import { WorkerFleet, type WorkerProgram } from './worker-fleet.js';

// Several processes on one port (WORKERS): test/bootstrap/workers.process.spec.ts. The primary runs the migrations, forks,
// replaces and stops the workers, and serves their metrics as one exposition; it takes no requests. To the database a
// worker is a replica like any other.

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
/** Workers keep the deadline themselves; one that still runs this much later hangs. */
const DEADLINE_TOLERANCE_MS = 2_000;

/**
 * Resolves when all workers listen.
 * @param afterStop stops what the workers used, after the last one has exited
 * @throws {WorkerStartError} when a worker cannot start
 */
export async function servePrimary(
  environment: Environment,
  program: WorkerProgram,
  watch: StartWatch,
  afterStop: () => Promise<void>,
): Promise<OpenPorts> {
  const log = new Log(environment);
  await retryUntilReachable(watch, () => migrate(environment.databaseUrl, watch));
  const fleet = new WorkerFleet(program, environment.workers, log);
  const metrics = await openMetrics(environment, fleet, log);
  let stopping = false;
  const stop = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    const isClean = await fleet.stop(environment.shutdownDeadlineMs + DEADLINE_TOLERANCE_MS);
    await metrics?.close();
    await log.onApplicationShutdown();
    await afterStop();
    process.exit(isClean ? 0 : 1);
  };
  for (const signal of SIGNALS) process.on(signal, () => void stop());
  const ports = await watch.during('the workers', () => fleet.start());
  return toOpenPorts(ports, metrics);
}

/** A worker opens the internal port first (serve-app.ts). */
function toOpenPorts(ports: readonly number[], metrics: MetricsEndpoint | undefined): OpenPorts {
  const [port = 0, internalPort] = ports.toReversed();
  return { port, internalPort, metricsPort: metrics?.port };
}

async function openMetrics(
  { metricsPort, host, workers }: Environment,
  fleet: WorkerFleet,
  log: Log,
): Promise<MetricsEndpoint | undefined> {
  if (metricsPort === undefined) return undefined;
  return MetricsEndpoint.open({ port: metricsPort, host, log, read: createFleetMetrics(fleet, workers) });
}

/** @returns a function that reads the metrics of all workers, aggregated, and those of the fleet itself */
function createFleetMetrics(fleet: WorkerFleet, size: number): () => Promise<string> {
  const workers = new AggregatorRegistry();
  const own = new Registry();
  const registers = [own];
  new Gauge({
    name: `${PREFIX}workers`,
    help: 'Worker processes that listen.',
    registers,
    collect() {
      this.set(fleet.listening);
    },
  });
  new Gauge({ name: `${PREFIX}workers_wanted`, help: 'Worker processes that WORKERS asks for.', registers }).set(size);
  new Counter({
    name: `${PREFIX}worker_restarts_total`,
    help: 'Workers that replaced another.',
    registers,
    collect() {
      this.reset();
      this.inc(fleet.restarts);
    },
  });
  return async () => `${await workers.clusterMetrics()}${await own.metrics()}`;
}
