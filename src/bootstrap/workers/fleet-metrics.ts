import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { PREFIX } from '../../metrics/metrics-registry.js';
import type { WorkerFleet } from './worker-fleet.js';

/** @returns a function that reads the metrics of all workers, aggregated, and those of the fleet itself */
export function createFleetMetrics(fleet: WorkerFleet, size: number): () => Promise<string> {
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
