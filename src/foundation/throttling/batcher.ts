import { setImmediate as nextRound } from 'node:timers/promises';
import { FairQueue, type Ticket } from '../common/fair-queue.js';
import { ProblemException, problems } from '../problems/problems.js';

const MAX_BATCH_SIZE = 100;
const NO_NETWORK: Ticket = { networks: [], isKnown: false };

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: ProblemException) => void;
}

/**
 * Runs one statement at a time; items that arrive meanwhile form the next batch, in an order that is fair between
 * networks. When a statement fails, all waiting items fail with it, because one timeout after another would take too
 * long.
 */
export class Batcher<Item, Answer> {
  private readonly queue: FairQueue<Waiting<Item, Answer>>;
  private isRunning = false;

  /** @param run returns the answers in the order of the items */
  constructor(
    maxQueued: number,
    private readonly run: (items: Item[]) => Promise<Answer[]>,
  ) {
    this.queue = new FairQueue(maxQueued);
  }

  /** @throws {ProblemException} unavailable: fails closed without the counters; hashing_busy when the queue is full */
  addItem(item: Item, ticket = NO_NETWORK): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.queue.push({ item, resolve, reject }, ticket)?.reject(new ProblemException(problems.hashingBusy));
      if (!this.isRunning) void this.drain();
    });
  }

  private async drain(): Promise<void> {
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
