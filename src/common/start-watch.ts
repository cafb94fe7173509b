/** A start says what it waits for every so often, and a few times before its limit. */
const REPORT_INTERVAL_MS = 5_000;
const MIN_REPORTS = 3;
export const DEFAULT_START_TIMEOUT_SECONDS = 60;

/** What a start waits for. */
export interface Wait {
  readonly step: string;
  /** Since the last progress. */
  readonly seconds: number;
  /** Why the last attempt failed. */
  readonly reason?: string | undefined;
}

export class StartTimeoutError extends Error {
  override readonly name = 'StartTimeoutError';

  constructor({ step, seconds, reason }: Wait) {
    const why = reason === undefined ? '' : ` (${reason})`;
    super(`nothing came of ${seconds} s of waiting for ${step}${why}`);
  }
}

interface Step {
  readonly name: string;
  reason?: string;
}

/**
 * Watches everything that happens before a process listens: names the step that it waits for, and fails the start at
 * its limit. Steps nest; the innermost is the one that is named.
 */
export class StartWatch {
  private steps: readonly Step[] = [];
  /** Intervals without progress, not time: a process that slept, or was busy with loading itself, counts none. */
  private idleIntervals = 0;
  /** How often it looks, and says what it waits for. */
  readonly intervalMs: number;

  constructor(
    private readonly limitMs = DEFAULT_START_TIMEOUT_SECONDS * 1_000,
    private readonly report: (wait: Wait) => void = () => undefined,
  ) {
    this.intervalMs = Math.min(REPORT_INTERVAL_MS, limitMs / MIN_REPORTS);
  }

  /** Names what the start waits for until the work has ended. */
  async during<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const outer = this.steps;
    this.steps = [...outer, { name }];
    try {
      return await work();
    } finally {
      this.steps = outer;
    }
  }

  /** Keeps why an attempt failed that will be repeated, and reports it when it is news. */
  failed(reason: string): void {
    const step = this.steps.at(-1);
    if (!step || step.reason === reason) return;
    step.reason = reason;
    this.report(this.wait);
  }

  /** Counts the limit anew, as PostgreSQL says that it works for this start. */
  extend(): void {
    this.idleIntervals = 0;
  }

  /**
   * Ends a start that has reached its limit. The work itself goes on until the process exits.
   * @throws {StartTimeoutError}
   */
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
