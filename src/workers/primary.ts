import type { StartWatch } from '../common/start-watch.js';
import type { Environment } from '../config/environment.js';
import { migrate, onceReachable } from '../database/migrate.js';
import { Log } from '../logging/log.js';
import { MetricsEndpoint } from '../metrics/metrics-endpoint.js';
import { WorkerFleet, type WorkerProgram } from './worker-fleet.js';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
/** Workers keep their own deadline. Who is there so long after it hangs, or is paused. */
const SLACK_MS = 2_000;

/**
 * Does once what must be done once, and has workers do the rest. Resolves when all of them listen.
 * @param afterStop what must stop once no worker uses it any more
 * @throws when the first workers cannot start
 */
export async function servePrimary(
  environment: Environment,
  program: WorkerProgram,
  watch: StartWatch,
  afterStop: () => Promise<void>,
): Promise<void> {
  const log = new Log(environment);
  await onceReachable(watch, () => migrate(environment.databaseUrl, watch));
  const fleet = new WorkerFleet(program, environment.workers, log);
  const metrics = await openMetrics(environment, fleet, log);
  let stopping = false;
  const stop = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    const isGood = await fleet.stop(environment.shutdownDeadlineMs + SLACK_MS);
    await metrics?.close();
    await log.onApplicationShutdown();
    await afterStop();
    process.exit(isGood ? 0 : 1);
  };
  for (const signal of SIGNALS) process.on(signal, () => void stop());
  await watch.during('the workers', () => fleet.start());
}

async function openMetrics(
  { metricsPort, host, workers }: Environment,
  fleet: WorkerFleet,
  log: Log,
): Promise<MetricsEndpoint | undefined> {
  if (metricsPort === undefined) return undefined;
  // Loaded only here, as in a process that is alone.
  const { FleetMetrics } = await import('./fleet-metrics.js');
  const metrics = new FleetMetrics(fleet, workers);
  return MetricsEndpoint.open({ port: metricsPort, host, log, read: () => metrics.read() });
}
