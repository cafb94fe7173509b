import { setImmediate as nextRound } from 'node:timers/promises';
import { KeyedQueue, type Turn } from '../common/keyed-queue.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';

const MAX_BATCH_SIZE = 100;

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: ProblemException) => void;
}

/**
 * What arrives while a statement is under way goes with the next one, in a fair order: all networks together hold one
 * connection. What waits fails with the statement before it: finding out in turn would take too long.
 */
export class Batcher<Item, Answer> {
  private readonly queue: KeyedQueue<Waiting<Item, Answer>>;
  private isRunning = false;

  constructor(
    limit: number,
    private readonly run: (items: Item[]) => Promise<Answer[]>,
  ) {
    this.queue = new KeyedQueue(limit);
  }

  /** @throws {ProblemException} unavailable: fails closed without the counters; hashing_busy without a place in the queue */
  add(item: Item, turn: Turn): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.queue.push({ item, resolve, reject }, turn)?.reject(new ProblemException(problems.hashingBusy));
      if (!this.isRunning) void this.work();
    });
  }

  private async work(): Promise<void> {
    this.isRunning = true;
    await nextRound();
    while (this.queue.size > 0) {
      const batch = this.queue.take(MAX_BATCH_SIZE);
      try {
        const answers = await this.run(batch.map(({ item }) => item));
        batch.forEach(({ resolve }, index) => resolve(answers[index] as Answer));
      } catch (cause) {
        const failed = [...batch, ...this.queue.take(Infinity)];
        for (const { reject } of failed) reject(new ProblemException(problems.unavailable, { cause }));
      }
    }
    this.isRunning = false;
  }
}
