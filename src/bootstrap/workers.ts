// Several processes on one port (WORKERS). The primary runs the migrations, forks, replaces and stops the workers, and
// serves their metrics as one exposition; it takes no requests. For the database, a worker is a replica like any other.

import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { StartWatch } from '../foundation/common/start-watch.js';
import type { Environment, Variables } from '../foundation/config/environment.js';
import { migrate, retryUntilReachable } from '../foundation/database/migrate.js';
import { Log } from '../foundation/logging/log.js';
import { PREFIX } from '../foundation/metrics/metrics-registry.js';
import { MetricsEndpoint } from '../foundation/metrics/metrics-server.js';
import type { OpenPorts } from './serve-app.js';
import { WorkerStartError } from './start-report.js';
import { onStopSignal } from './stop-signal.js';

/** A worker that lived this long did not crash at its start, so the backoff begins anew. */
const MIN_STABLE_MS = 60_000;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;

interface WorkerProgram {
  readonly file: string;
  /** The number of servers of a worker, which takes requests once all of them listen. */
  readonly servers: number;
  /** Passed in the worker's environment, because other users can read a command line. */
  readonly variables: Variables;
}

interface WorkerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

interface WorkerSlot {
  readonly worker: Worker;
  readonly startedAt: number;
  readonly exit: Promise<WorkerExit>;
  /** Resolves with the ports, in the order in which they opened, when all servers of the worker listen. */
  readonly listening: Promise<readonly number[]>;
  isListening: boolean;
}

/**
 * @param crashes consecutive workers that exited within a minute
 * @returns the delay before the next worker
 */
export function computeBackoffMs(crashes: number): number {
  return crashes < 2 ? 0 : Math.min(MIN_BACKOFF_MS * 2 ** (crashes - 2), MAX_BACKOFF_MS);
}

export class WorkerFleet {
  private readonly slots = new Set<WorkerSlot>();
  private readonly stopping = new AbortController();
  restarts = 0;

  constructor(
    private readonly program: WorkerProgram,
    private readonly size: number,
    private readonly log: Log,
  ) {
    cluster.setupPrimary({ exec: program.file, args: [] });
  }

  /** The process ids of all workers, listening or not. */
  get pids(): number[] {
    return [...this.slots].flatMap(({ worker }) => worker.process.pid ?? []);
  }

  get listening(): number {
    return [...this.slots].filter(({ isListening }) => isListening).length;
  }

  /**
   * Starts the first worker alone, so that a common cause of failure is printed once; resolves when every worker
   * listens.
   * @returns the ports that all workers share, in the order in which a worker opens them
   * @throws {WorkerStartError} after the other workers were killed
   */
  async start(): Promise<readonly number[]> {
    try {
      const first = await this.startWorker();
      const others = await Promise.all(Array.from({ length: this.size - 1 }, () => this.startWorker()));
      for (const slot of [first, ...others]) void this.replaceExitedWorkers(slot);
      return await first.listening;
    } catch (error) {
      // A signal during the start is a stop and not a failure, so nothing is thrown: `stop` ends the process.
      if (this.isStopping()) return new Promise(() => undefined);
      await this.stopWorkers('SIGKILL');
      throw error;
    }
  }

  /**
   * Kills the workers that still run at the deadline.
   * @returns whether all workers exited with code 0
   */
  async stop(deadlineMs: number): Promise<boolean> {
    this.stopping.abort();
    const kill = setTimeout(() => {
      for (const pid of this.pids) this.log.error('worker_killed', { worker_pid: pid });
      this.signalWorkers('SIGKILL');
    }, deadlineMs);
    const exits = await this.stopWorkers('SIGTERM');
    clearTimeout(kill);
    return exits.every(Boolean);
  }

  private async stopWorkers(signal: 'SIGTERM' | 'SIGKILL'): Promise<boolean[]> {
    this.stopping.abort();
    const exits = [...this.slots].map(async (slot) => {
      const exit = await slot.exit;
      // A worker that does not listen yet has no handler for the signal and nothing to drain, so its death is a clean
      // stop.
      return exit.code === 0 || (!slot.isListening && exit.signal === 'SIGTERM');
    });
    this.signalWorkers(signal);
    return Promise.all(exits);
  }

  private isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  private signalWorkers(signal: 'SIGTERM' | 'SIGKILL'): void {
    for (const { worker } of this.slots) worker.process.kill(signal);
  }

  private forkWorker(): WorkerSlot {
    const worker = cluster.fork(this.program.variables);
    const exit = waitForExit(worker);
    const listening = waitForListening(worker, this.program.servers);
    const slot: WorkerSlot = { worker, startedAt: performance.now(), exit, listening, isListening: false };
    this.slots.add(slot);
    void listening.then(() => (slot.isListening = true));
    void exit.then(() => this.slots.delete(slot));
    return slot;
  }

  private async startWorker(): Promise<WorkerSlot> {
    const slot = this.forkWorker();
    await new Promise<void>((resolve, reject) => {
      void slot.listening.then(() => resolve());
      void slot.exit.then(() => reject(new WorkerStartError('A worker could not start: its reason is printed above.')));
    });
    return slot;
  }

  private async replaceExitedWorkers(first: WorkerSlot): Promise<void> {
    for (let slot = first, crashes = 0; ; slot = this.forkWorker(), this.restarts += 1) {
      const exit = await slot.exit;
      if (this.isStopping()) return;
      crashes = performance.now() - slot.startedAt < MIN_STABLE_MS ? crashes + 1 : 0;
      const delayMs = computeBackoffMs(crashes);
      const fields = { worker_pid: slot.worker.process.pid, exit_code: exit.code ?? undefined };
      this.log.warn('worker_replaced', { ...fields, signal: exit.signal ?? undefined, delay_ms: delayMs });
      await sleep(delayMs, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      if (this.isStopping()) return;
    }
  }
}

async function waitForListening(worker: Worker, servers: number): Promise<readonly number[]> {
  const ports: number[] = [];
  return new Promise((resolve) => {
    worker.on('listening', ({ port }) => {
      ports.push(port);
      if (ports.length === servers) resolve(ports);
    });
  });
}

async function waitForExit(worker: Worker): Promise<WorkerExit> {
  return new Promise((resolve) => {
    worker.once('exit', (code: number | null, signal: string | null) => resolve({ code, signal }));
    // A failed fork (EAGAIN) has no process, and so no exit event.
    worker.on('error', () => {
      if (worker.process.pid === undefined) resolve({ code: null, signal: null });
    });
  });
}

/** Workers keep the deadline themselves, so one that runs this much longer hangs. */
const DEADLINE_TOLERANCE_MS = 2_000;

/** @param afterStop stops what the workers used, once the last one has exited */
export async function servePrimary(
  environment: Environment,
  program: WorkerProgram,
  watch: StartWatch,
  afterStop: () => Promise<void>,
): Promise<OpenPorts> {
  const log = new Log(environment);
  await retryUntilReachable(watch, () => migrate(environment.databaseUrl, watch));
  const fleet = new WorkerFleet(program, environment.workers, log);
  const { metricsPort, metricsHost: host, workers } = environment;
  const metrics =
    metricsPort === undefined
      ? undefined
      : await MetricsEndpoint.open({ port: metricsPort, host, log, read: createFleetMetrics(fleet, workers) });
  const stop = async (): Promise<void> => {
    const isClean = await fleet.stop(environment.shutdownDeadlineMs + DEADLINE_TOLERANCE_MS);
    await metrics?.close();
    await log.onApplicationShutdown();
    await afterStop();
    process.exit(isClean ? 0 : 1);
  };
  onStopSignal(() => void stop());
  const ports = await watch.during('the workers', () => fleet.start());
  // A worker opens the internal port first (serve-app.ts).
  const [port = 0, internalPort] = ports.toReversed();
  return { port, internalPort, metricsPort: metrics?.port };
}

/** @returns a function that reads the metrics of all workers, aggregated, and of the fleet itself */
function createFleetMetrics(fleet: WorkerFleet, size: number): () => Promise<string> {
  const workers = new AggregatorRegistry();
  const registry = new Registry();
  const registers = [registry];
  const listening = new Gauge({ name: `${PREFIX}workers`, help: 'Worker processes that listen.', registers });
  new Gauge({ name: `${PREFIX}workers_wanted`, help: 'Worker processes that WORKERS asks for.', registers }).set(size);
  const name = `${PREFIX}worker_restarts_total`;
  const restarts = new Counter({ name, help: 'Workers that replaced another.', registers });
  return async () => {
    listening.set(fleet.listening);
    restarts.reset();
    restarts.inc(fleet.restarts);
    return `${await workers.clusterMetrics()}${await registry.metrics()}`;
  };
}
