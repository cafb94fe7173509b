import { setTimeout as sleep } from 'node:timers/promises';

const CLOCK_RATE_MARGIN = 0.02;
/** Timers may fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

/** What the database answers: everything that changed in transactions that were not finished at `horizon`, or later. */
export interface Changes {
  /** Transactions below it are finished. The next question starts there. */
  readonly horizon: bigint;
  readonly changes: readonly Change[];
  /** The lowest transaction in the record; what was below it may have been purged. undefined: nothing ever was. */
  readonly oldest?: bigint | undefined;
}

export interface Change {
  /** Tells a change that an earlier answer brought already. */
  readonly seq: string;
  /** null: anything may have changed. */
  readonly credentialId: string | null;
}

/** Whatever holds what the database said, and must not when it changes. */
export interface Forgetful {
  forget(credentialId: string): void;
  forgetAll(): void;
}

export interface LeaseTerms {
  /** 0: nothing may be answered from memory. */
  readonly leaseMs: number;
  /** How much longer an operator accepts answers from memory while the database is away. */
  readonly outageGraceMs: number;
}

/** Both in milliseconds. */
export interface Clocks {
  /** Never jumps. */
  monotonic(): number;
  /** May jump, and goes on while the machine sleeps. */
  wall(): number;
}

export const SYSTEM_CLOCKS: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() };

/**
 * The right to answer from memory. It lasts a fixed time from the moment at which this replica last asked the database
 * what has changed, and got an answer. Whoever revokes waits that time out between the commit and the answer
 * (docs/decisions/0033 has the argument).
 */
export class RevocationLease {
  private heldUntilMs = -Infinity;
  private heldUntilWallMs = -Infinity;
  private horizon: bigint | undefined;
  private known = new Set<string>();
  private readonly memories: Forgetful[] = [];
  /** Grows with every change that was heard of. */
  version = 0;

  constructor(
    private readonly terms: LeaseTerms,
    private readonly clocks: Clocks,
  ) {}

  add(memory: Forgetful): void {
    this.memories.push(memory);
  }

  /** The wall clock can only shorten it: a machine that slept did not hear of what happened meanwhile. */
  get isHeld(): boolean {
    return this.clocks.monotonic() < this.heldUntilMs && this.clocks.wall() < this.heldUntilWallMs;
  }

  /**
   * Asks the database once, and holds the lease anew from the moment of the question, not of the answer.
   * @param ask since undefined: nothing is remembered yet
   */
  async renew(ask: (since: bigint | undefined) => Promise<Changes>): Promise<void> {
    const term = this.terms.leaseMs + this.terms.outageGraceMs;
    const untilMs = this.clocks.monotonic() + term;
    const untilWallMs = this.clocks.wall() + term;
    const answer = await ask(this.horizon);
    const { horizon, changes } = answer;
    if (!this.isHeld || !this.continues(answer)) this.forgetAll();
    for (const { seq, credentialId } of changes) if (!this.known.has(seq)) this.forget(credentialId);
    this.known = new Set(changes.map(({ seq }) => seq));
    this.horizon = horizon;
    this.heldUntilMs = untilMs;
    this.heldUntilWallMs = untilWallMs;
  }

  /**
   * To be awaited between the commit of a revocation and its answer: then no replica answers from what it remembered
   * before. The margin is for clocks that do not run equally fast.
   */
  async waitOut(): Promise<void> {
    if (this.terms.leaseMs > 0) await sleep(this.terms.leaseMs * (1 + CLOCK_RATE_MARGIN) + TIMER_MARGIN_MS);
  }

  /** Whether the answer has all that changed since the one before. */
  private continues({ horizon, oldest }: Changes): boolean {
    // A horizon that went back is another database's: a restored one, say.
    if (this.horizon === undefined || horizon < this.horizon) return false;
    // A purge takes the lowest transactions and leaves one row: everything that is gone was of that one, or below.
    return oldest === undefined || oldest < this.horizon;
  }

  private forget(credentialId: string | null): void {
    if (credentialId === null) {
      this.forgetAll();
      return;
    }
    this.version += 1;
    for (const memory of this.memories) memory.forget(credentialId);
  }

  private forgetAll(): void {
    this.version += 1;
    for (const memory of this.memories) memory.forgetAll();
  }
}
