import type { Runtime } from './runtime.js';

/** Equals the number of connections of the transport. */
const MAX_RUNNING = 64;
/** One of this many slots is reserved for credentials that were valid recently. */
const RESERVED_SHARE = 4;
const MAX_WAIT_MS = 1_000;

/** Decides which question is sent next. */
export interface Turn {
  /** Whether the credential was valid recently, which an attacker has few of. */
  readonly wasValid: boolean;
  /** The network of the caller. Callers without an address share one. */
  readonly network: string;
}

interface Waiting {
  readonly turn: Turn;
  readonly admit: (isAdmitted: boolean) => void;
}

/**
 * Bounds the questions of one door. Credentials that were valid recently go first; the others take turns by network,
 * and a full queue drops the newest question of the longest one. So a client that sends random keys delays and drops
 * its own.
 */
export class QuestionSlots {
  private readonly maxRunning: number;
  private readonly maxRunningUnknown: number;
  private running = 0;
  private runningUnknown = 0;
  private waiting = 0;
  private readonly valid: Waiting[] = [];
  /** Round robin: the first network is the next one. */
  private readonly unknown = new Map<string, Waiting[]>();

  /** @param limit of questions that are sent or wait, together */
  constructor(
    private readonly limit: number,
    private readonly runtime: Runtime,
  ) {
    this.maxRunning = Math.min(limit, MAX_RUNNING);
    this.maxRunningUnknown = this.maxRunning - Math.floor(this.maxRunning / RESERVED_SHARE);
  }

  /** Waits for a slot. @returns whether the question may be sent; then {@link leave} is to be called */
  async enter(turn: Turn): Promise<boolean> {
    if (this.hasSlot(turn)) {
      this.count(turn, 1);
      return true;
    }
    if (this.running + this.waiting >= this.limit && !this.displaceFor(turn)) return false;
    return new Promise((resolve) => this.wait(turn, resolve));
  }

  leave(turn: Turn): void {
    this.count(turn, -1);
    for (let next = this.takeNext(); next; next = this.takeNext()) {
      this.count(next.turn, 1);
      next.admit(true);
    }
  }

  private hasSlot({ wasValid }: Pick<Turn, 'wasValid'>): boolean {
    return this.running < this.maxRunning && (wasValid || this.runningUnknown < this.maxRunningUnknown);
  }

  private count({ wasValid }: Turn, change: 1 | -1): void {
    this.running += change;
    if (!wasValid) this.runningUnknown += change;
  }

  private wait(turn: Turn, resolve: (isAdmitted: boolean) => void): void {
    const { wasValid, network } = turn;
    const queue = wasValid ? this.valid : (this.unknown.get(network) ?? []);
    if (!wasValid) this.unknown.set(network, queue);
    const cancel = this.runtime.schedule(() => this.drop(waiting, queue), MAX_WAIT_MS, false);
    const admit = (isAdmitted: boolean): void => {
      cancel();
      resolve(isAdmitted);
    };
    const waiting = { turn, admit };
    queue.push(waiting);
    this.waiting += 1;
  }

  private takeNext(): Waiting | undefined {
    if (this.valid.length > 0 && this.hasSlot({ wasValid: true })) {
      this.waiting -= 1;
      return this.valid.shift();
    }
    const [first] = this.unknown;
    if (!first || !this.hasSlot({ wasValid: false })) return undefined;
    const [network, queue] = first;
    this.unknown.delete(network);
    if (queue.length > 1) this.unknown.set(network, queue);
    this.waiting -= 1;
    return queue.shift();
  }

  private displaceFor({ wasValid, network }: Turn): boolean {
    let largest: Waiting[] = [];
    for (const queue of this.unknown.values()) if (queue.length > largest.length) largest = queue;
    const own = this.unknown.get(network)?.length ?? 0;
    const newest = largest.at(-1);
    if (!newest || (!wasValid && largest.length <= own + 1)) return false;
    this.drop(newest, largest);
    return true;
  }

  private drop(waiting: Waiting, queue: Waiting[]): void {
    const index = queue.indexOf(waiting);
    if (index < 0) return;
    queue.splice(index, 1);
    this.waiting -= 1;
    const { wasValid, network } = waiting.turn;
    if (!wasValid && queue.length === 0) this.unknown.delete(network);
    waiting.admit(false);
  }
}
