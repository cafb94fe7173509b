import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import { toErrorFields, type Log } from '../../foundation/logging/log.js';
import { isDatabaseFailure } from '../../foundation/database/database-failure.js';

const FLUSH_INTERVAL_MS = 30_000;

/** Collects writes in memory, and makes them in batches: every 30 seconds, and when the service stops. */
export abstract class DeferredWrites<Batch extends readonly unknown[]> implements OnModuleInit, OnApplicationShutdown {
  private lastFlush = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private isFlushingEarly = false;
  /** Whether the last write met an outage. */
  private isBehind = false;

  constructor(
    /** Event that is logged with the number of unwritten items. */
    private readonly warning: string,
    private readonly log: Log,
  ) {}

  /** Takes everything out of the memory. */
  protected abstract takeBatches(): Batch[];
  /** Must be one statement or one transaction, because a failed batch is written again as a whole. */
  protected abstract writeBatch(batch: Batch): Promise<void>;
  protected abstract putBack(unwritten: readonly Batch[]): void;

  onModuleInit(): void {
    this.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.stop();
  }

  start(): void {
    this.timer = setInterval(() => void this.flush(), FLUSH_INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
  }

  /** Follows a running flush, whose items may not be written yet. */
  flush(): Promise<void> {
    this.lastFlush = this.lastFlush.then(() => this.writeAll());
    return this.lastFlush;
  }

  /** Flushes before the interval is over, when the memory fills. In an outage it waits for the interval. */
  protected flushEarly(): void {
    if (this.isFlushingEarly || this.isBehind) return;
    this.isFlushingEarly = true;
    void this.flush().finally(() => (this.isFlushingEarly = false));
  }

  /** Writes a batch before the interval is over, and logs a failure. After an outage it waits for the interval. */
  protected async writeEarly(batch: Batch): Promise<void> {
    if (this.isBehind) return;
    try {
      await this.writeBatch(batch);
    } catch (error) {
      this.isBehind ||= isDatabaseFailure(error);
      this.warn(batch.length, error);
    }
  }

  /** Retries what an outage leaves unwritten. Any other failed batch is dropped, so that it blocks no others. */
  private async writeAll(): Promise<void> {
    const batches = this.takeBatches();
    for (const [index, batch] of batches.entries()) {
      try {
        await this.writeBatch(batch);
      } catch (error) {
        const isOutage = isDatabaseFailure(error);
        const unwritten = isOutage ? batches.slice(index) : [batch];
        this.warn(unwritten.flat().length, error);
        if (!isOutage) continue;
        this.putBack(unwritten);
        this.isBehind = true;
        return;
      }
    }
    this.isBehind = false;
  }

  private warn(count: number, error: unknown): void {
    this.log.warn(this.warning, { count, error: toErrorFields(error) });
  }
}
