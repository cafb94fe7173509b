import { types } from 'node:util';
import { Worker } from 'node:worker_threads';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import type { PasswordTask, PasswordThread } from './password.worker.js';

/** Short, because an idle thread occupies 10 MB or more. */
const MAX_IDLE_MS = 60_000;
/** The message for a thread that ended without an error of its own. */
const ENDED = 'The hashing thread has ended.';

interface Promised {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

/** A worker thread, which hashes one password at a time and ends after a minute without one. */
class HashingThread {
  hasEnded = false;
  private readonly worker: Worker;
  private promised: Promised | undefined;
  private idleTimer: NodeJS.Timeout | undefined;

  /** @throws when the operating system refuses the thread */
  constructor(workerData: PasswordThread) {
    this.worker = new Worker(new URL('./password.worker.js', import.meta.url), { workerData })
      .on('message', (result) => this.promised?.resolve(result as never))
      .on('error', (error) => this.fail(types.isNativeError(error) ? error : Object.assign(new Error(ENDED), error)))
      .on('exit', () => this.fail(new Error(ENDED)));
  }

  get isIdle(): boolean {
    return !this.hasEnded && this.promised === undefined;
  }

  async run<Result>(task: PasswordTask): Promise<Result> {
    clearTimeout(this.idleTimer);
    this.worker.ref();
    try {
      return await new Promise<Result>((resolve, reject) => {
        this.promised = { resolve, reject };
        this.worker.postMessage(task);
      });
    } finally {
      this.promised = undefined;
      this.worker.unref();
      this.idleTimer = setTimeout(() => void this.end(), MAX_IDLE_MS).unref();
    }
  }

  async end(): Promise<void> {
    this.hasEnded = true;
    clearTimeout(this.idleTimer);
    await this.worker.terminate();
  }

  private fail(error: Error): void {
    this.hasEnded = true;
    this.promised?.reject(error);
  }
}

/**
 * Starts a thread for a password when all others are busy. If it cannot start, because its file is missing or the
 * operating system refuses it, that password alone is answered with 503, and the next one tries again.
 */
export class HashingThreads {
  /** The first idle thread is used, so that the others become idle long enough to end. */
  private threads: HashingThread[] = [];

  constructor(private readonly workerData: PasswordThread) {}

  /** @throws {ProblemException} hashing_busy when no thread could start, or the thread ended before its result */
  async run<Result>(task: PasswordTask): Promise<Result> {
    this.threads = this.threads.filter(({ hasEnded }) => !hasEnded);
    try {
      let thread = this.threads.find(({ isIdle }) => isIdle);
      if (!thread) this.threads.push((thread = new HashingThread(this.workerData)));
      return await thread.run<Result>(task);
    } catch (cause) {
      throw new ProblemException(problems.hashingBusy, { fault: {}, cause });
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.threads.map((thread) => thread.end()));
  }
}
