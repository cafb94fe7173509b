/** How often a waiting start logs its step. A short time limit has `MIN_INTERVALS` of them, the last of which ends it. */
const REPORT_INTERVAL_MS = 5_000;
const MIN_INTERVALS = 3;
export const DEFAULT_START_TIMEOUT_SECONDS = 60;

/** The step that a start waits for, the time since the last progress, and the reason of the last failed attempt. */
interface Wait {
  readonly step: string;
  readonly seconds: number;
  readonly reason?: string | undefined;
}

export class StartTimeoutError extends Error {
  override readonly name = 'StartTimeoutError';

  constructor({ step, seconds, reason }: Wait) {
    const why = reason === undefined ? '' : ` (${reason})`;
    super(`no progress in ${seconds} s of waiting for ${step}${why}`);
  }
}

interface Step {
  readonly name: string;
  reason?: string;
}

/**
 * Reports the innermost step that a start waits for, and ends the start when it makes no progress within a time limit.
 */
export class StartWatch {
  private steps: readonly Step[] = [];
  /**
   * Counts intervals rather than time, so that nothing counts while the process is suspended or busy loading modules.
   */
  private idleIntervals = 0;
  readonly intervalMs: number;

  constructor(
    private readonly limitMs = DEFAULT_START_TIMEOUT_SECONDS * 1_000,
    private readonly report: (wait: Wait) => void = () => undefined,
  ) {
    this.intervalMs = Math.min(REPORT_INTERVAL_MS, limitMs / MIN_INTERVALS);
  }

  async during<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const outer = this.steps;
    this.steps = [...outer, { name }];
    try {
      return await work();
    } finally {
      this.steps = outer;
    }
  }

  /** Keeps the reason of a failed attempt that will be repeated, and reports it when it has changed. */
  reportFailure(reason: string): void {
    const step = this.steps.at(-1);
    if (!step || step.reason === reason) return;
    step.reason = reason;
    this.report(this.wait);
  }

  /** Restarts the time limit after progress, for example of a long migration. */
  extend(): void {
    this.idleIntervals = 0;
  }

  /** @throws {StartTimeoutError} at the time limit. The work itself continues until the process exits */
  async limit<Result>(work: Promise<Result>): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    this.extend();
    const expired = new Promise<never>((_, reject) => {
      timer = setInterval(() => {
        this.idleIntervals += 1;
        if (this.idleIntervals * this.intervalMs < this.limitMs) this.report(this.wait);
        else reject(new StartTimeoutError(this.wait));
      }, this.intervalMs);
    });
    try {
      return await Promise.race([work, expired]);
    } finally {
      clearInterval(timer);
    }
  }

  private get wait(): Wait {
    return {
      step: this.steps.at(-1)?.name ?? 'the process itself',
      seconds: Math.round((this.idleIntervals * this.intervalMs) / 1_000),
      reason: this.steps.findLast(({ reason }) => reason !== undefined)?.reason,
    };
  }
}
