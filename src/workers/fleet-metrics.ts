import type { Worker } from 'node:cluster';
import { Counter, Gauge, type Registry } from 'prom-client';
import { aggregate, countsOf, sumOf } from '../metrics/aggregate.js';
import { PREFIX } from '../metrics/exposition.js';
import { isReported, type Report, type ReportWanted } from '../metrics/worker-report.js';
import type { WorkerFleet } from './worker-fleet.js';

/** Longer than any gauge may take; far shorter than Prometheus waits. */
const PATIENCE_MS = 2_000;

/** The metrics of all workers as one. What a worker has counted stays counted when it has ended, or hangs. */
export class FleetMetrics {
  private readonly last = new Map<Worker, Report>();
  /** Counted by workers that have ended. */
  private ended: Report = [];
  private questions = 0;

  constructor(
    private readonly fleet: WorkerFleet,
    private readonly size: number,
  ) {
    fleet.onFork = (worker) => {
      worker.on('message', (message: unknown) => {
        if (isReported(message)) this.last.set(worker, message.report);
      });
    };
    fleet.onEnd = (worker) => {
      const report = this.last.get(worker);
      this.last.delete(worker);
      if (report) this.ended = sumOf([this.ended, countsOf(report)]);
    };
  }

  /** Never waits long: a worker that does not answer is shown as it was. */
  async read(): Promise<Registry> {
    const answered = await Promise.all(this.fleet.listening.map((worker) => this.ask(worker)));
    const registry = aggregate([...this.last.values(), this.ended]);
    const registers = [registry];
    const gauge = (name: string, help: string, value: number): void =>
      new Gauge({ name: PREFIX + name, help, registers }).set(value);
    gauge('workers', 'Worker processes that take requests.', this.fleet.listening.length);
    gauge('workers_wanted', 'Worker processes that there should be.', this.size);
    gauge(
      'workers_silent',
      'Workers that did not report; their last figures are shown.',
      answered.filter((is) => !is).length,
    );
    new Counter({
      name: `${PREFIX}worker_restarts_total`,
      help: 'Workers that took the place of another.',
      registers,
    }).inc(this.fleet.restarts);
    return registry;
  }

  /** @returns whether it answered in time */
  private async ask(worker: Worker): Promise<boolean> {
    if (!worker.isConnected()) return false;
    const reportWanted = (this.questions += 1);
    return new Promise((resolve) => {
      const hear = (message: unknown): void => {
        if (isReported(message) && message.reported === reportWanted) settle(true);
      };
      const settle = (answered: boolean): void => {
        clearTimeout(timer);
        worker.off('message', hear);
        resolve(answered);
      };
      const timer = setTimeout(() => settle(false), PATIENCE_MS);
      worker.on('message', hear);
      worker.send({ reportWanted } satisfies ReportWanted, (error) => {
        if (error) settle(false);
      });
    });
  }
}
