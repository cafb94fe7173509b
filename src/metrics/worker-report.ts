import type { Registry } from 'prom-client';

/** The metrics of one worker, as prom-client writes them down. */
export type Report = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** From the primary to a worker. */
export interface ReportWanted {
  readonly reportWanted: number;
}

/** From a worker to its primary. */
export interface Reported {
  /** The number of the question; 0 for the last report, which nobody has asked for. */
  readonly reported: number;
  readonly report: Report;
}

export function isReported(message: unknown): message is Reported {
  return typeof message === 'object' && message !== null && 'reported' in message;
}

function isReportWanted(message: unknown): message is ReportWanted {
  return typeof message === 'object' && message !== null && 'reportWanted' in message;
}

/** In a worker: tells the primary its metrics whenever it asks. */
export class WorkerReporter {
  constructor(private readonly registry: Registry) {
    process.on('message', (message) => {
      if (isReportWanted(message)) void this.report(message.reportWanted);
    });
  }

  /** So that nothing that was counted is lost with this worker. */
  async reportLast(): Promise<void> {
    await this.report(0);
  }

  private async report(reported: number): Promise<void> {
    // A gauge that cannot be read is the next scrape's concern: the primary shows what it had.
    const report = await this.registry.getMetricsAsJSON().catch(() => undefined);
    if (report === undefined) return;
    await new Promise<void>((resolve) => {
      process.send?.({ reported, report } satisfies Reported, undefined, undefined, () => resolve());
    });
  }
}
