import { toErrorFields, type Log } from '../../foundation/logging/log.js';
import { isDatabaseFailure } from '../../foundation/database/database-failure.js';

const FLUSH_INTERVAL_MS = 30_000;

/** Writes what requests leave in memory: in batches, every 30 seconds, and when the service stops. */
export abstract class DeferredWrites<Batch extends readonly unknown[]> {
  private lastFlush = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private isFlushingEarly = false;
  /** The database was away at the last flush. */
  private isBehind = false;

  constructor(
    /** Logged with the number of those that could not be written. */
    private readonly warning: string,
    private readonly log: Log,
  ) {}

  /** Empties the memory. */
  protected abstract takeBatches(): Batch[];
  /** A batch that fails is written again as a whole: one statement, or one transaction. */
  protected abstract writeBatch(batch: Batch): Promise<void>;
  protected abstract putBack(unwritten: readonly Batch[]): void;

  start(): void {
    this.timer = setInterval(() => void this.flush(), FLUSH_INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
  }

  /** Waits for a flush that is under way, whose items may not be written yet. */
  flush(): Promise<void> {
    this.lastFlush = this.lastFlush.then(() => this.writeAll());
    return this.lastFlush;
  }

  /** When the memory fills before the interval is over. In an outage the interval alone decides. */
  protected flushEarly(): void {
    if (this.isFlushingEarly || this.isBehind) return;
    this.isFlushingEarly = true;
    void this.flush().finally(() => (this.isFlushingEarly = false));
  }

  /** What an outage leaves unwritten is retried at the next flush. What cannot be written at all does not block the others. */
  private async writeAll(): Promise<void> {
    const batches = this.takeBatches();
    for (const [index, batch] of batches.entries()) {
      try {
        await this.writeBatch(batch);
      } catch (error) {
        const isOutage = isDatabaseFailure(error);
        const unwritten = isOutage ? batches.slice(index) : [batch];
        this.log.warn(this.warning, { count: unwritten.flat().length, error: toErrorFields(error) });
        if (!isOutage) continue;
        this.putBack(unwritten);
        this.isBehind = true;
        return;
      }
    }
    this.isBehind = false;
  }
}
