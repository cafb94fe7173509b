import { toErrorFields, type Log } from '../logging/log.js';
import { isDatabaseFailure } from '../database/database-failure.js';

const FLUSH_INTERVAL_MS = 30_000;

/** What requests leave in memory, to be written later and in batches. */
export interface Deferred<Item> {
  /** Empties the memory. */
  takeBatches(): Item[][];
  write(batch: Item[]): Promise<unknown>;
  putBack(unwritten: Item[]): void;
}

/** Writes what is deferred every 30 seconds, and when the service stops. */
export class DeferredWrites<Item> {
  private lastFlush = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly deferred: Deferred<Item>,
    /** Logged with the number of those that could not be written. */
    private readonly warning: string,
    private readonly log: Log,
  ) {}

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

  /** What an outage leaves unwritten is retried at the next flush. What cannot be written at all does not block the others. */
  private async writeAll(): Promise<void> {
    const batches = this.deferred.takeBatches();
    for (const [index, batch] of batches.entries()) {
      try {
        await this.deferred.write(batch);
      } catch (error) {
        const isOutage = isDatabaseFailure(error);
        const unwritten = isOutage ? batches.slice(index).flat() : batch;
        this.log.warn(this.warning, { count: unwritten.length, error: toErrorFields(error) });
        if (!isOutage) continue;
        this.deferred.putBack(unwritten);
        return;
      }
    }
  }
}
