const CLOSE_TIMEOUT_MS = 20_000;
const EXIT_CODE_FAILED = 1;
const EXIT_CODE_INTERRUPTED = 130;

/**
 * Undoes what a run has started, in reverse order: at its end, after a failure, and when a signal interrupts it. A
 * start in progress is awaited and then undone, so that no process keeps running.
 */
export class Cleanup {
  private readonly pending: (() => unknown)[] = [];
  private readonly starting = new Set<Promise<unknown>>();
  private undoing = Promise.resolve();
  private closed = false;

  static async around(task: (cleanup: Cleanup) => Promise<void>): Promise<void> {
    const cleanup = new Cleanup();
    const exit = (code: number): void => {
      if (cleanup.isClosed) return;
      setTimeout(() => process.exit(code), CLOSE_TIMEOUT_MS).unref();
      void cleanup.close().finally(() => process.exit(code));
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => exit(EXIT_CODE_INTERRUPTED));
    process.on('uncaughtException', (error) => {
      if (!cleanup.isClosed) console.error(error);
      exit(EXIT_CODE_FAILED);
    });
    try {
      await task(cleanup);
    } catch (error) {
      // Tasks in progress fail while everything is being stopped.
      if (!cleanup.isClosed) throw error;
    } finally {
      await cleanup.run();
    }
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /** @param undo must not depend on anything that is deferred later */
  defer(undo: () => unknown): void {
    this.pending.push(undo);
  }

  /** @throws {InterruptedError} after {@link close}, when nothing new may start */
  assertOpen(): void {
    if (this.closed) throw new InterruptedError();
  }

  /** Starts something, and defers how to undo it. */
  async acquire<Started>(start: () => Promise<Started>, undo: (started: Started) => unknown): Promise<Started> {
    this.assertOpen();
    const started = start().then((value) => {
      this.defer(() => undo(value));
      return value;
    });
    this.starting.add(started);
    try {
      return await started;
    } finally {
      this.starting.delete(started);
    }
  }

  /** Undoes everything so far. A failure is reported on stderr and does not stop the rest. */
  run(): Promise<void> {
    this.undoing = this.undoing.then(() => this.undoAll());
    return this.undoing;
  }

  /** Undoes everything, and refuses every later start. */
  close(): Promise<void> {
    this.closed = true;
    return this.run();
  }

  private async undoAll(): Promise<void> {
    await Promise.allSettled(this.starting);
    for (let undo = this.pending.pop(); undo; undo = this.pending.pop()) {
      try {
        await undo();
      } catch (error) {
        console.error('While cleaning up:', error);
      }
    }
  }
}

/** The run is being stopped, so what starts now would not be stopped any more. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';

  constructor() {
    super('interrupted');
  }
}
